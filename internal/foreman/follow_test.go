package foreman_test

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/foreman"
	"github.com/muster-dev/muster/internal/foreman/parcel"
	"github.com/muster-dev/muster/internal/foreman/shift"
	"github.com/muster-dev/muster/internal/foreman/worker"
)

// led has a work be led by one member.
func led(spec *foreman.Spec) {
	spec.Leader, spec.Followers = "driver/0", []string{"executor/0", "executor/1"}
}

// forEver is what a follower runs that does nothing.
const forEver = `trap 'exit 143' TERM; while :; do sleep 0.02; done`

// follows runs a line as a follower and returns how to tell it to end, and where its
// exit code comes. Options are changed as the caller says.
func (s *shop) follows(p pod, line string, change ...func(*worker.MemberOptions)) (chan<- os.Signal, <-chan int) {
	s.Helper()
	signals, ended, folder := make(chan os.Signal, 2), make(chan int, 1), s.TempDir()
	o := worker.MemberOptions{
		Post: s.post(p), Work: "run.stage", Folder: folder, Name: p.member, Duty: worker.Follows, Signals: signals, Stderr: os.Stderr, Stdout: os.Stderr,
		Words: []string{"sh", "-c", line}, Environ: append(os.Environ(), "OUT="+folder+"/out", "NAME="+strings.Replace(p.member, "/", "-", 1)), Grace: time.Minute,
	}
	for _, f := range change {
		f(&o)
	}
	go func() { ended <- worker.RunMember(s.Context(), o) }()
	return signals, ended
}

// leads runs a line as the leader.
func (s *shop) leads(p pod, line string, signals <-chan os.Signal) int {
	s.Helper()
	folder := s.TempDir()
	return worker.RunMember(s.Context(), worker.MemberOptions{
		Post: s.post(p), Work: "run.stage", Folder: folder, Name: p.member, Duty: worker.Leads, Signals: signals, Stderr: os.Stderr, Stdout: os.Stderr,
		Words: []string{"sh", "-c", line}, Environ: append(os.Environ(), "OUT="+folder+"/out", "DATUM="+folder), Grace: time.Minute,
	})
}

// Followers go on until the leader is done, which ends last; what they wrote until then
// is the output, and what the leader said the log. All are sent the same secret.
func TestLed(t *testing.T) {
	s := open(t)
	w := s.lent(led)
	gate := t.TempDir()
	line := `cp $OUT/../secret $OUT/secret; mkdir $OUT/t; echo $NAME > $OUT/t/$NAME; trap 'rm $OUT/half; exit 143' TERM; echo x > $OUT/half; touch ` + gate + `/$NAME; while :; do sleep 0.02; done`
	one, oneEnded := s.follows(pod{member: "executor/0", name: "a", attempt: 3}, line)
	other, otherEnded := s.follows(pod{member: "executor/1", name: "b", attempt: 3}, line)
	script := `while ! [ -e ` + gate + `/executor-0 -a -e ` + gate + `/executor-1 ]; do sleep 0.02; done; cp $OUT/../secret $OUT/secret; test $(wc -c < $OUT/secret) -gt 40 || exit 9; echo said > $DATUM/log`
	if code := s.leads(pod{member: "driver/0", name: "c", attempt: 3}, script, nil); code != 0 {
		t.Fatalf("the leader: %d", code)
	}
	select {
	case <-oneEnded:
		t.Error("a follower ended before it was told to")
	case <-otherEnded:
		t.Error("a follower ended before it was told to")
	default:
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
	made := s.made(w)
	delete(made, "secret")
	if diff := cmp.Diff(map[string]string{"t/executor-0": "executor-0\n", "t/executor-1": "executor-1\n"}, made); diff != "" {
		t.Error(diff)
	}
	d, _ := w.Only()
	if text, err := os.ReadFile(filepath.Join(d.Folder, shift.LogFile)); err != nil || string(text) != "said\n" {
		t.Errorf("the log: %q, %v", text, err)
	}
}

// The part of a leader is not taken while one of its followers has brought nothing, a
// failure, or what is of another attempt; and what is there then is no output. That one
// has failed in its attempt is what the leader is told.
func TestLedLacks(t *testing.T) {
	brought := func(attempt int, line string) func(*shop) {
		return func(s *shop) { // as one that is alone would bring it
			s.runs(pod{member: "executor/1", name: "old", attempt: attempt}, line)
		}
	}
	for name, c := range map[string]struct {
		before func(*shop)
		code   int
	}{
		"nothing":         {func(*shop) {}, 143},
		"a failure":       {brought(3, `exit 4`), 1},
		"an attempt past": {brought(2, `echo x > $OUT/x`), 143},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			w := s.lent(led)
			c.before(s)
			follower, ended := s.follows(pod{member: "executor/0", name: "a", attempt: 3}, forEver)
			signals, code := make(chan os.Signal, 1), make(chan int, 1)
			go func() { code <- s.leads(pod{member: "driver/0", name: "d", attempt: 3}, "true", signals) }()
			s.await("its other follower hears that it is done", func() bool { return s.brought("executor-0") == "a" })
			follower <- syscall.SIGTERM
			<-ended
			signals <- syscall.SIGTERM
			if code := <-code; code != c.code {
				t.Errorf("the leader: %d, want %d", code, c.code)
			}
			err := w.Unite(t.Context(), nil)
			if !errors.Is(err, foreman.ErrMissing) {
				t.Errorf("%v", err)
			}
		})
	}
}

// brought is the pod whose part counts of a member, by the name of its folder.
func (s *shop) brought(member string) string {
	text, _ := os.ReadFile(filepath.Join(s.Folder("run.stage"), ".parts", member, "part.json"))
	_, rest, _ := strings.Cut(string(text), `"pod":"`)
	name, _, _ := strings.Cut(rest, `"`)
	return name
}

// A follower that is told to end before its leader is done brings nothing, nor does one
// whose program ends by itself count.
func TestFollowerEnds(t *testing.T) {
	s := open(t)
	w := s.lent(led)
	signals, ended := s.follows(pod{member: "executor/0", name: "a", attempt: 1}, forEver)
	signals <- syscall.SIGTERM
	if code := <-ended; code != 143 || s.brought("executor-0") != "" {
		t.Errorf("%d, and it brought %q", code, s.brought("executor-0"))
	}
	_, ended = s.follows(pod{member: "executor/1", name: "b", attempt: 1}, `echo '{"exit":-2,"error":"there is no Java"}' > $OUT/../outcome.json; exit 5`)
	if code := <-ended; code != 1 || w.Refused() != "member executor/1 cannot run: there is no Java" {
		t.Errorf("%d, %q", code, w.Refused())
	}
}

// Of a member that is lost another pod does not begin in the same attempt: what the lost
// one wrote would be missed. In the next attempt it does.
func TestTorn(t *testing.T) {
	s := open(t)
	w := s.lent(led)
	_, lost := s.follows(pod{member: "executor/0", name: "a", attempt: 1}, `exit 3`)
	if code := <-lost; code != 3 {
		t.Fatal(code)
	}
	code, says := s.runs(pod{member: "executor/0", name: "b", born: 1, attempt: 1}, `echo x > $OUT/x`)
	if code != 1 || !strings.Contains(says, "all members have to begin anew") || w.Status().Problem != "" {
		t.Errorf("%d: %s; %q", code, says, w.Status().Problem)
	}
	if code, says := s.runs(pod{member: "executor/0", name: "c", born: 2, attempt: 2}, `echo x > $OUT/x`); code != 0 {
		t.Errorf("%d: %s", code, says)
	}
}

// What a leader says of why it failed is known, until another one begins.
func TestFell(t *testing.T) {
	s := open(t)
	w := s.lent(led)
	script := `echo I give up > $DATUM/log; echo '{"exit":7,"error":"the script gave up"}' > $DATUM/outcome.json; exit 7`
	if code := s.leads(pod{member: "driver/0", name: "a", attempt: 1}, script, nil); code != 7 {
		t.Errorf("%d", code)
	}
	says, err := w.Fell(t.Context())
	d, _ := w.Only()
	text, failed := os.ReadFile(filepath.Join(d.Folder, shift.LogFile))
	if says != "the script gave up" || string(text) != "I give up\n" || err != nil || failed != nil {
		t.Errorf("%q, %q, %v, %v", says, text, err, failed)
	}
	signals := make(chan os.Signal, 1)
	go func() {
		s.await("it has begun", func() bool {
			says, err := w.Fell(t.Context())
			return says == "" && err == nil
		})
		signals <- syscall.SIGTERM
	}()
	if code := s.leads(pod{member: "driver/0", name: "b", born: 1, attempt: 2}, "while :; do sleep 0.02; done", signals); code != 143 {
		t.Errorf("%d", code)
	}
}

// A foreman that takes the place of another one knows what that was brought, and hears
// from the leader again that it is done.
func TestLedMoves(t *testing.T) {
	store := t.TempDir()
	keeping := func(spec *foreman.Spec) {
		led(spec)
		spec.Keep = func(_ context.Context, member, folder string) error {
			to := filepath.Join(store, member)
			return errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(folder)))
		}
		spec.Kept = func(_ context.Context, folder string) error { return os.CopyFS(folder, os.DirFS(store)) }
	}
	first := open(t)
	first.lent(keeping)
	for i := range 2 {
		if code, says := first.runs(pod{member: fmt.Sprint("executor/", i), name: fmt.Sprint(i), attempt: 1}, fmt.Sprintf("echo %d > $OUT/%[1]d", i)); code != 0 {
			t.Fatalf("%d: %s", code, says)
		}
	}
	second := open(t)
	w := second.lent(keeping)
	if code := second.leads(pod{member: "driver/0", name: "c", attempt: 1}, "echo said > $DATUM/log", nil); code != 0 {
		t.Fatalf("the leader: %d", code)
	}
	if err := w.Unite(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"0": "0\n", "1": "1\n"}, second.made(w)); diff != "" {
		t.Error(diff)
	}
}

// That the leader of an attempt is done is said to followers of that attempt of its job:
// another job counts its attempts from 1 again.
func TestClosing(t *testing.T) {
	s := open(t)
	w := s.lent(led)
	waits, gone := foreman.ErrMissing, foreman.ErrFormer
	for i, step := range []struct {
		before      func()
		member, job string
		attempt     int64
		want        error
	}{
		{nil, "executor/0", "a", 0, waits},
		{nil, "executor/0", "a", 1, waits},
		{nil, "driver/0", "a", 1, waits}, // for what its followers bring
		{nil, "executor/0", "a", 1, nil},
		{nil, "executor/0", "a", 2, waits},
		{nil, "driver/0", "a", 2, waits},
		{nil, "executor/0", "a", 1, waits}, // until it is ended
		{nil, "executor/0", "a", 2, nil},
		{nil, "driver/0", "b", 1, waits},
		{nil, "executor/0", "a", 1, waits},
		{nil, "executor/0", "b", 1, nil},
		{func() { w.For("c") }, "executor/0", "c", 1, waits},
		{nil, "driver/0", "b", 2, gone},
		{nil, "executor/0", "b", 1, gone},
		{nil, "executor/0", "c", 2, waits},
		{nil, "driver/0", "c", 2, waits},
		{nil, "executor/0", "c", 2, nil},
		{func() {
			if err := w.Afresh(s.Context()); err != nil {
				t.Error(err)
			}
		}, "executor/0", "c", 2, waits},
	} {
		if step.before != nil {
			step.before()
		}
		if err := w.Ripe(t.Context(), step.member, step.job, step.attempt); !errors.Is(err, step.want) {
			t.Errorf("%d: %s, %s %d: %v, and not %v", i, step.member, step.job, step.attempt, err, step.want)
		}
	}
}

// reading is a text before which something happens.
type reading struct {
	io.Reader
	before func()
}

func (r *reading) Read(p []byte) (int, error) {
	r.before()
	return r.Reader.Read(p)
}

// What a member of a job before said that would not change is not said of the next job,
// even where it comes late.
func TestRefusedIsOfOneJob(t *testing.T) {
	s := open(t)
	w := s.lent(led)
	w.For("a")
	unfit := func() *strings.Reader {
		var text strings.Builder
		out := tar.NewWriter(&text)
		if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeFifo, Name: shift.OutFolder + "/pipe"}); err != nil {
			t.Fatal(err)
		}
		return strings.NewReader(text.String())
	}
	p := pod{member: "executor/0", name: "p", job: "a", attempt: 1}
	if said := s.says(p, http.MethodPut, shift.PartPath, unfit()); said.Code != shift.StatusRefused || w.Refused() == "" {
		t.Fatalf("%d: %s; %q", said.Code, said.Body, w.Refused())
	}
	afresh := func(job string) {
		w.For(job)
		if err := w.Afresh(s.Context()); err != nil {
			t.Error(err)
		}
	}
	afresh("b")
	if w.Refused() != "" {
		t.Errorf("of the next job: %s", w.Refused())
	}
	p.job = "b"
	said := s.says(p, http.MethodPut, shift.PartPath, &reading{unfit(), func() { afresh("c") }})
	if said.Code != shift.StatusRefused || w.Refused() != "" {
		t.Errorf("late: %d: %s; %q", said.Code, said.Body, w.Refused())
	}
}

// secret is what the foreman sends a pod for the others of its job.
func (s *shop) secret(p pod) string {
	s.Helper()
	said, folder := s.says(p, http.MethodGet, shift.SharedPath, http.NoBody), s.TempDir()
	if said.Code != http.StatusOK {
		s.Fatalf("%+v: %d: %s", p, said.Code, said.Body)
	}
	if err := parcel.Read(said.Body, folder, parcel.Limits{}, shift.InFolder, shift.SecretFile); err != nil {
		s.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(folder, shift.SecretFile))
	if err != nil {
		s.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(folder, shift.InFolder, shift.InFolder, "name")); err != nil {
		s.Error(err)
	}
	return string(text)
}

// Members of one attempt of a job have one secret, and those of another attempt, or
// another job, another one. What it follows from is sent to nobody.
func TestSecret(t *testing.T) {
	s := open(t)
	w := s.lent(led)
	s.await("the files are there", func() bool { return w.Status().Local })
	known := map[string]string{}
	for _, p := range []pod{
		{member: "driver/0", name: "a", job: "a", attempt: 1},
		{member: "driver/0", name: "b", born: 1, job: "a", attempt: 2},
		{member: "driver/0", name: "c", born: 2, job: "a", attempt: 12},
		{member: "driver/0", name: "d", born: 3, job: "b", attempt: 1},
	} {
		w.For(p.job)
		follower := p
		follower.member = "executor/0"
		one, other := s.secret(p), s.secret(follower)
		if one != other || len(one) < 40 || known[one] != "" {
			t.Errorf("%s: %q, and a follower's %q; the same as that of %q", p.name, one, other, known[one])
		}
		known[one] = p.name
	}
	d, _ := w.Only()
	root, err := os.ReadFile(filepath.Join(d.Folder, shift.SecretFile))
	if err != nil || len(root) < 40 || known[string(root)] != "" {
		t.Errorf("what they follow from: %q, %v; the same as that of %q", root, err, known[string(root)])
	}
}

// A member that leads or follows and is not heard any more ends as one that has failed:
// its end, or that it goes on for ever, would be taken for its work.
func TestUnheard(t *testing.T) {
	for name, ends := range map[string]func(*shop, *foreman.Work) error{
		"another job":       func(_ *shop, w *foreman.Work) error { w.For("second"); return nil },
		"the stage is over": func(s *shop, _ *foreman.Work) error { return s.Close("run.stage") },
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			w := s.lent(led)
			w.For("first")
			gate := t.TempDir()
			_, follower := s.follows(pod{member: "executor/0", name: "a", job: "first", attempt: 1}, `touch `+gate+`/follows; `+forEver)
			leader := make(chan int, 1)
			go func() {
				leader <- s.leads(pod{member: "driver/0", name: "b", job: "first", attempt: 1}, `touch `+gate+`/leads; until [ -e `+gate+`/go ]; do sleep 0.02; done`, nil)
			}()
			for _, file := range []string{"follows", "leads"} {
				s.await(file, func() bool { _, err := os.Stat(filepath.Join(gate, file)); return err == nil })
			}
			if err := ends(s, w); err != nil {
				t.Fatal(err)
			}
			if code := <-follower; code != 1 {
				t.Errorf("the follower: %d", code)
			}
			if err := os.WriteFile(filepath.Join(gate, "go"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if code := <-leader; code != 1 {
				t.Errorf("the leader: %d", code)
			}
		})
	}
}
