package foreman_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/foreman"
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
// exit code comes.
func (s *shop) follows(p pod, line string) (chan<- os.Signal, <-chan int) {
	s.Helper()
	signals, ended, folder := make(chan os.Signal, 2), make(chan int, 1), s.TempDir()
	o := worker.MemberOptions{
		Post: s.post(p), Work: "run.stage", Folder: folder, Name: p.member, Duty: worker.Follows, Signals: signals, Stderr: os.Stderr, Stdout: os.Stderr,
		Words: []string{"sh", "-c", line}, Environ: append(os.Environ(), "OUT="+folder+"/out", "NAME="+strings.Replace(p.member, "/", "-", 1)), Grace: time.Minute,
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
// failure, or what is of another attempt; and what is there then is no output.
func TestLedLacks(t *testing.T) {
	brought := func(attempt int, line string) func(*shop) {
		return func(s *shop) { // as one that is alone would bring it
			s.runs(pod{member: "executor/1", name: "old", attempt: attempt}, line)
		}
	}
	for name, before := range map[string]func(*shop){
		"nothing":         func(*shop) {},
		"a failure":       brought(3, `exit 4`),
		"an attempt past": brought(2, `echo x > $OUT/x`),
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			w := s.lent(led)
			before(s)
			follower, ended := s.follows(pod{member: "executor/0", name: "a", attempt: 3}, forEver)
			signals, code := make(chan os.Signal, 1), make(chan int, 1)
			go func() { code <- s.leads(pod{member: "driver/0", name: "d", attempt: 3}, "true", signals) }()
			s.await("its other follower hears that it is done", func() bool { return s.brought("executor-0") == "a" })
			follower <- syscall.SIGTERM
			<-ended
			signals <- syscall.SIGTERM
			if code := <-code; code != 143 {
				t.Errorf("the leader: %d", code)
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
