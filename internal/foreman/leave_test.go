package foreman_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/foreman"
	"github.com/muster-dev/muster/internal/foreman/parcel"
	"github.com/muster-dev/muster/internal/foreman/shift"
	"github.com/muster-dev/muster/internal/foreman/worker"
)

// leaving has a follower go in order where it can.
func leaving(o *worker.MemberOptions) { o.Leaves = true }

// goes runs a line as a follower that leaves, tells it to go once it is ready, and returns
// its exit code.
func (s *shop) goes(p pod, line string) int {
	s.Helper()
	ready := filepath.Join(s.TempDir(), "ready")
	signals, ended := s.follows(p, line+`; touch `+ready+`; while :; do sleep 0.02; done`, leaving)
	s.await("it runs", func() bool { _, err := os.Stat(ready); return err == nil })
	signals <- syscall.SIGTERM
	return <-ended
}

// orderly is what a program does that goes in order, and only where it is to.
const orderly = `trap 'test -e $OUT/../leave && exit 0; exit 143' TERM; `

// What one wrote that left in order counts with what the next pod of its place writes in
// the same attempt, and neither is missed. What is of the attempt before does not.
func TestLeft(t *testing.T) {
	s := open(t)
	w := s.lent(func(spec *foreman.Spec) { spec.Leader, spec.Followers = "driver/0", []string{"executor/0"} })
	if code := s.goes(pod{member: "executor/2", name: "old", attempt: 1}, orderly+`echo old > $OUT/old`); code != 143 {
		t.Errorf("one of the attempt before: %d", code)
	}
	if code := s.goes(pod{member: "executor/1", name: "a", attempt: 2}, orderly+`echo first > $OUT/first; echo both > $OUT/both`); code != 143 {
		t.Errorf("the first: %d", code)
	}
	gate := t.TempDir()
	stays := func(p pod, line string) (chan<- os.Signal, <-chan int) {
		return s.follows(p, line+`; touch `+gate+`/$NAME; `+forEver, leaving)
	}
	one, oneEnded := stays(pod{member: "executor/0", name: "b", attempt: 2}, `echo base > $OUT/base`)
	other, otherEnded := stays(pod{member: "executor/1", name: "c", born: 1, attempt: 2}, `echo second > $OUT/second; echo both > $OUT/both`)
	script := `while ! [ -e ` + gate + `/executor-0 -a -e ` + gate + `/executor-1 ]; do sleep 0.02; done`
	if code := s.leads(pod{member: "driver/0", name: "d", attempt: 2}, script, nil); code != 0 {
		t.Fatalf("the leader: %d", code)
	}
	for signals, ended := range map[chan<- os.Signal]<-chan int{one: oneEnded, other: otherEnded} {
		signals <- syscall.SIGTERM
		if code := <-ended; code != 0 {
			t.Errorf("a follower: %d", code)
		}
	}
	if err := w.Unite(t.Context(), []string{"driver/0"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"first": "first\n", "second": "second\n", "both": "both\n", "base": "base\n"}, s.made(w)); diff != "" {
		t.Error(diff)
	}
}

// One goes in order where its program says so, or wrote nothing; else what it wrote is
// lost, and the leader ends as one that failed. In the next attempt nothing of it counts.
func TestLeaves(t *testing.T) {
	for name, c := range map[string]struct {
		line    string
		ordered bool
	}{
		"in order":                {orderly + `echo x > $OUT/x`, true},
		"wrote nothing":           {`mkdir $OUT/empty`, true},
		"wrote, and just ended":   {`echo x > $OUT/x`, false},
		"a failure":               {`trap 'exit 5' TERM`, false},
		"what cannot be kept":     {orderly + `mkfifo $OUT/x`, false},
		"ends by another signal":  {`trap 'kill -9 $$' TERM`, false},
		"wrote, and says it ends": {`trap 'exit 143' TERM; echo x > $OUT/x`, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			w := s.lent(func(spec *foreman.Spec) { spec.Leader = "driver/0" })
			if code := s.goes(pod{member: "executor/0", name: "a", attempt: 1}, c.line); code != 143 {
				t.Errorf("%d", code)
			}
			next := s.says(pod{member: "executor/0", name: "b", born: 1, attempt: 1}, http.MethodGet, shift.SharedPath, http.NoBody)
			if (next.Code == http.StatusOK) != c.ordered {
				t.Errorf("the next pod: %d %s", next.Code, next.Body)
			}
			if c.ordered && s.brings(pod{member: "executor/0", name: "b", born: 1, attempt: 1}, shift.Outcome{}, "") != http.StatusNoContent {
				t.Fatal("what the next pod brings is not taken")
			}
			want := map[bool]int{true: 0, false: 1}[c.ordered]
			if code := s.leads(pod{member: "driver/0", name: "d", attempt: 1}, "true", nil); code != want {
				t.Errorf("the leader: %d, want %d", code, want)
			}
			if err := w.Unite(t.Context(), nil); (err == nil) != c.ordered {
				t.Errorf("%v", err)
			}
			if c.ordered {
				return
			}
			if code := s.leads(pod{member: "driver/0", name: "e", born: 1, attempt: 2}, "echo anew > $OUT/anew", nil); code != 0 {
				t.Errorf("the next leader: %d", code)
			}
			if err := w.Unite(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[string]string{"anew": "anew\n"}, s.made(w)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// One that has begun and is not heard any more is lost; one that asks is not, however long
// it takes. A foreman that has just begun has heard nobody, and waits.
func TestUnheardOf(t *testing.T) {
	var ahead atomic.Int64
	s := open(t, func(o *foreman.Options) {
		o.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	w := s.lent(func(spec *foreman.Spec) { spec.Leader = "driver/0" })
	p := pod{member: "executor/0", name: "a", attempt: 1}
	s.begins(p)
	done := func(want error) {
		t.Helper()
		if err := w.Ripe(t.Context(), "driver/0", "", 1); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	done(foreman.ErrMissing)
	ahead.Add(int64(time.Minute))
	done(foreman.ErrMissing)
	if code := s.says(p, http.MethodGet, shift.PartPath, http.NoBody).Code; code != http.StatusNoContent {
		t.Errorf("that its leader is done: %d", code)
	}
	ahead.Add(int64(90 * time.Second))
	done(foreman.ErrMissing)
	blocked, goes := make(chan struct{}), make(chan struct{})
	var once sync.Once
	body := &reading{http.NoBody, func() { once.Do(func() { close(blocked) }); <-goes }}
	brought := make(chan int, 1)
	go func() { brought <- s.says(p, http.MethodPut, shift.PartPath, body).Code }()
	<-blocked
	ahead.Add(int64(time.Hour))
	done(foreman.ErrMissing) // it is bringing
	close(goes)
	<-brought
	done(foreman.ErrMissing)
	ahead.Add(int64(3 * time.Minute))
	done(foreman.ErrTorn)
	if code := s.brings(p, shift.Outcome{}, "late"); code != http.StatusNoContent {
		t.Errorf("late: %d", code)
	}
	done(nil)
}

// begins has a pod begin, if it may.
func (s *shop) begins(p pod) bool {
	s.Helper()
	for {
		switch said := s.says(p, http.MethodGet, shift.SharedPath, http.NoBody); said.Code {
		case http.StatusOK:
			return true
		case http.StatusServiceUnavailable: // the files are not here yet
			time.Sleep(time.Millisecond)
		default:
			return false
		}
	}
}

// orders are all orders of events of which each line happens from left to right.
func orders(lines [][]string) [][]string {
	var out [][]string
	for i, line := range lines {
		if len(line) == 0 {
			continue
		}
		rest := slices.Clone(lines)
		rest[i] = line[1:]
		for _, tail := range orders(rest) {
			out = append(out, append([]string{line[0]}, tail...))
		}
	}
	if out == nil {
		return [][]string{nil}
	}
	return out
}

// gathering is one order of events of an attempt: a driver, an executor that stays, one
// that goes, and one that takes its place.
type gathering struct {
	*shop
	w    *foreman.Work
	pods map[string]pod
	// began are those that were given the files, and kept those whose files were taken.
	began, kept map[string]bool
	// done says that the leader was, and missed that a pod had begun before and was lost.
	done, missed bool
	lost         string
}

func (g *gathering) happens(event string) {
	g.Helper()
	name, what, _ := strings.Cut(event, " ")
	p := g.pods[name]
	switch what {
	case "begins":
		g.began[name] = g.begins(p)
		g.missed = g.missed || g.began[name] && name == g.lost && !g.done
	case "done":
		g.done = true
		_ = g.w.Ripe(g.Context(), p.member, p.job, int64(p.attempt)) // which has others hear it
	case "brings", "leaves", "fails":
		if !g.began[name] {
			return // it has nothing
		}
		o := shift.Outcome{Left: what == "leaves"}
		if what == "fails" {
			o.Exit, o.Error = 143, "it was told to go"
		}
		if g.brings(p, o, name) == http.StatusNoContent && o.Error == "" {
			g.kept[name] = true
		}
	}
}

// TestOrders: in whatever order members begin, go, are followed and are done, what is
// united has the files of all that began before the leader was done; and where none is
// lost it comes to that.
func TestOrders(t *testing.T) {
	s := open(t)
	w := s.lent(func(spec *foreman.Spec) {
		spec.Leader, spec.Followers = "driver/0", []string{"executor/0"}
		spec.Keep = func(context.Context, string, string) error { return nil } // no disk is waited for
	})
	n := 0
	for _, c := range []struct{ goes, next, lost string }{
		{"goes leaves", "next brings", ""}, {"goes fails", "next brings", "goes"}, {"goes", "next brings", "goes"}, {"goes leaves", "next", "next"},
	} {
		for _, order := range orders([][]string{{"goes begins", c.goes}, {"next begins", c.next}, {"driver done", "driver brings"}}) {
			n++
			job := fmt.Sprint("job", n)
			g := &gathering{shop: s, w: w, lost: c.lost, began: map[string]bool{}, kept: map[string]bool{}, pods: map[string]pod{
				"driver": {member: "driver/0", name: "driver", job: job, attempt: 1},
				"stays":  {member: "executor/0", name: "stays", job: job, attempt: 1},
				"goes":   {member: "executor/1", name: "goes", job: job, attempt: 1},
				"next":   {member: "executor/1", name: "next", born: 1, job: job, attempt: 1},
			}}
			w.For(job)
			if err := w.Afresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, event := range append([]string{"driver begins", "stays begins", "stays brings"}, order...) {
				g.happens(event)
			}
			g.happens("driver brings") // again, as it does until it is taken
			err := w.Unite(t.Context(), []string{"driver/0"})
			if (err == nil) == g.missed {
				t.Fatalf("%q: %v; lost: %t", order, err, g.missed)
			}
			if err != nil {
				continue
			}
			made := slices.Sorted(maps.Keys(s.made(w)))
			if diff := cmp.Diff(slices.Sorted(maps.Keys(g.kept)), made); diff != "" {
				t.Fatalf("%q: %s", order, diff)
			}
		}
	}
	t.Logf("%d orders", n)
}

// brings sends the part of a pod with one file, which has the pod's name, or none.
func (s *shop) brings(p pod, o shift.Outcome, file string) int {
	s.Helper()
	o.ID = p.member
	text, err := json.Marshal(o)
	if err != nil {
		s.Fatal(err)
	}
	with, folder := map[string]string{shift.OutcomeFile: string(text)}, s.TempDir()
	if file != "" {
		s.put(filepath.Join(folder, shift.OutFolder), file, p.name)
	}
	var body bytes.Buffer
	if err := parcel.WriteWith(&body, with, folder, shift.OutFolder); err != nil {
		s.Fatal(err)
	}
	said := s.says(p, http.MethodPut, shift.PartPath, &body)
	return said.Code
}

// put writes a file into a folder, which it makes.
func (s *shop) put(folder, name, text string) {
	s.Helper()
	err := os.MkdirAll(folder, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600)
	}
	if err != nil {
		s.Fatal(err)
	}
}
