package foreman_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/foreman"
	"github.com/muster-dev/muster/internal/foreman/parcel"
	"github.com/muster-dev/muster/internal/foreman/shift"
	"github.com/muster-dev/muster/internal/foreman/worker"
)

// lent opens a work that is lent to the members of a job.
func (s *shop) lent(change ...func(*foreman.Spec)) *foreman.Work {
	s.Helper()
	spec := foreman.Spec{
		Name: "run.stage", Owner: "team", Tries: 1, Lent: true, Fetch: s.fetch, Record: s.record,
		Datums: []foreman.Datum{{ID: "0", Name: "all"}},
	}
	for _, f := range change {
		f(&spec)
	}
	w, err := s.Open(s.Context(), spec)
	if err != nil {
		s.Fatal(err)
	}
	return w
}

// pod is a pod of a member, with a post of its own, as the agent and the door make one.
type pod struct {
	member, name string
	born         int
	job          string
	attempt      int
	// cut breaks the first so many requests.
	cut int
}

// post serves a pod's post.
func (s *shop) post(p pod) string {
	s.Helper()
	dir, err := os.MkdirTemp("", "post-") // the address of a socket is short
	if err != nil {
		s.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, shift.TokenFile), []byte("x"), 0o600); err != nil {
		s.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(s.Context(), "unix", filepath.Join(dir, shift.SocketFile))
	if err != nil {
		s.Fatal(err)
	}
	inside, cuts := s.HandlerFor("team"), p.cut
	server := &http.Server{Handler: http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		in.Header.Set(shift.MemberHeader, p.member)
		in.Header.Set(shift.PodHeader, p.name)
		in.Header.Set(shift.BornHeader, fmt.Sprint(p.born))
		in.Header.Set(shift.JobHeader, p.job)
		in.Header.Set(shift.AttemptHeader, fmt.Sprint(p.attempt))
		if cuts > 0 {
			cuts--
			in.Body = io.NopCloser(io.LimitReader(in.Body, 700))
		}
		inside.ServeHTTP(out, in)
	})}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	s.Cleanup(func() {
		if err := errors.Join(server.Close(), os.RemoveAll(dir)); err != nil {
			s.Error(err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			s.Error(err)
		}
	})
	return dir
}

// runs runs a line as a member, and returns its exit code and what it said.
func (s *shop) runs(p pod, line string, signals ...os.Signal) (int, string) {
	s.Helper()
	to := make(chan os.Signal, len(signals)+1)
	for _, signal := range signals {
		to <- signal
	}
	return s.runsWith(p, line, to, time.Minute)
}

func (s *shop) runsWith(p pod, line string, signals <-chan os.Signal, grace time.Duration) (int, string) {
	s.Helper()
	var said bytes.Buffer
	folder := s.TempDir()
	code := worker.RunMember(s.Context(), worker.MemberOptions{
		Post: s.post(p), Work: "run.stage", Folder: folder, Name: p.member, Signals: signals, Stderr: &said, Stdout: &said,
		Words: []string{"sh", "-c", line}, Environ: append(os.Environ(), "IN="+folder+"/in", "OUT="+folder+"/out"), Grace: grace,
	})
	return code, said.String()
}

// made are the files of the output of the one datum.
func (s *shop) made(w *foreman.Work) map[string]string {
	s.Helper()
	d, _ := w.Only()
	top, out := filepath.Join(d.Folder, shift.OutFolder), map[string]string{}
	err := filepath.WalkDir(top, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name := strings.TrimPrefix(path, top+"/")
		if e.Type()&os.ModeSymlink != 0 {
			target, err := os.Readlink(path)
			out[name] = "-> " + target
			return err
		}
		text, err := os.ReadFile(path)
		out[name] = string(text)
		return err
	})
	if err != nil {
		s.Fatal(err)
	}
	return out
}

// Members read the same, write apart, and what they wrote becomes one output.
func TestMembers(t *testing.T) {
	s := open(t)
	w := s.lent()
	var group sync.WaitGroup
	for i := range 3 {
		group.Go(func() {
			line := fmt.Sprintf(`mkdir $OUT/deep; cp $IN/in/name $OUT/deep/%d; echo same > $OUT/deep/same; ln -s deep/same $OUT/link`, i)
			if i == 2 {
				line = "true" // writes nothing
			}
			code, says := s.runs(pod{member: fmt.Sprint("worker/", i), name: fmt.Sprint("pod", i), cut: i}, line)
			if code != 0 {
				t.Errorf("member %d: %d: %s", i, code, says)
			}
		})
	}
	group.Wait()
	if err := w.Unite(t.Context(), []string{"worker/0", "worker/1", "worker/2"}); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"deep/0": "all", "deep/1": "all", "deep/same": "same\n", "link": "-> deep/same"}
	if diff := cmp.Diff(want, s.made(w)); diff != "" {
		t.Error(diff)
	}
	if err := w.Unite(t.Context(), []string{"worker/3"}); !errors.Is(err, foreman.ErrMissing) || !strings.Contains(err.Error(), "worker/3") {
		t.Errorf("a member that brought nothing: %v", err)
	}
}

// What counts of a member is what its newest pod wrote.
func TestFollower(t *testing.T) {
	s := open(t)
	w := s.lent()
	old, young := pod{member: "worker/0", name: "a", born: 1}, pod{member: "worker/0", name: "b", born: 2}
	bring := func(p pod, line string, want int) {
		t.Helper()
		if code, says := s.runs(p, line); code != want {
			t.Fatalf("pod %s: %d, want %d: %s", p.name, code, want, says)
		}
	}
	bring(old, `echo old > $OUT/old`, 0)
	bring(young, `exit 3`, 3)
	if err := w.Unite(t.Context(), []string{"worker/0"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{}, s.made(w)); diff != "" {
		t.Errorf("what failed counts, or what was before: %s", diff)
	}
	bring(pod{member: "worker/0", name: "c", born: 3}, `echo new > $OUT/new`, 0)
	// It may not read any more, and so it never begins.
	if code, says := s.runs(old, `echo late > $OUT/late`); code == 0 {
		t.Errorf("a pod that was followed: %d: %s", code, says)
	}
	if err := w.Unite(t.Context(), []string{"worker/0"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"new": "new\n"}, s.made(w)); diff != "" {
		t.Error(diff)
	}
	// Another job begins.
	if err := w.Afresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.Unite(t.Context(), []string{"worker/0"}); !errors.Is(err, foreman.ErrMissing) {
		t.Errorf("a job before counts: %v", err)
	}
}

// A member that is told to end brings what it has, whether it ends by itself or not.
func TestMemberStopped(t *testing.T) {
	const wait = `; echo ready > $READY; while :; do sleep 0.02; done`
	for name, c := range map[string]struct {
		line    string
		signals []os.Signal
		grace   time.Duration
		code    int
	}{
		"by itself":      {`trap 'echo saved > $OUT/made; exit 0' TERM` + wait, []os.Signal{syscall.SIGTERM}, time.Minute, 0},
		"with a code":    {`trap 'echo saved > $OUT/made; exit 4' TERM` + wait, []os.Signal{syscall.SIGTERM}, time.Minute, 4},
		"by the signal":  {`echo saved > $OUT/made` + wait, []os.Signal{syscall.SIGTERM}, time.Minute, 143},
		"when it must":   {`trap '' TERM; echo saved > $OUT/made` + wait, []os.Signal{syscall.SIGTERM}, 10 * time.Millisecond, 137},
		"others pass on": {`trap 'echo saved > $OUT/made; exit 0' USR1` + wait, []os.Signal{syscall.SIGURG, syscall.SIGUSR1}, time.Minute, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			w := s.lent()
			ready := filepath.Join(t.TempDir(), "ready")
			signals := make(chan os.Signal, len(c.signals))
			go func() {
				s.await("the program runs", func() bool { _, err := os.Stat(ready); return err == nil })
				for _, signal := range c.signals {
					signals <- signal
				}
			}()
			if code, says := s.runsWith(pod{member: "ps/0", name: "a"}, strings.ReplaceAll(c.line, "$READY", ready), signals, c.grace); code != c.code {
				t.Errorf("%d, want %d: %s", code, c.code, says)
			}
			if err := w.Unite(t.Context(), []string{"ps/0"}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[string]string{"made": "saved\n"}, s.made(w)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// One that is told to end before it has begun says so, and brings nothing.
func TestMemberStoppedEarly(t *testing.T) {
	s := open(t)
	hold := make(chan struct{})
	w := s.lent(func(spec *foreman.Spec) {
		spec.Fetch = func(ctx context.Context, _ foreman.Datum, _ *os.Root) error {
			select {
			case <-hold:
			case <-ctx.Done():
			}
			return nil
		}
	})
	code, says := s.runs(pod{member: "worker/0", name: "a"}, `echo x > $OUT/made`, syscall.SIGTERM)
	close(hold)
	if code != 143 {
		t.Errorf("%d: %s", code, says)
	}
	s.await("the files are there", func() bool { return w.Status().Local })
	if err := w.Unite(t.Context(), []string{"worker/0"}); err != nil || len(s.made(w)) > 0 {
		t.Errorf("%v, %v", err, s.made(w))
	}
}

// What cannot be kept is refused in words, by which the job need not be run again.
func TestUnfit(t *testing.T) {
	for name, c := range map[string]struct{ line, says string }{
		"a pipe":     {`mkfifo $OUT/p`, "what member worker/0 wrote cannot be kept: it wrote p, which is a pipe"},
		"a link out": {`ln -s /etc/passwd $OUT/l`, "out of the tree"},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			w := s.lent()
			if code, says := s.runs(pod{member: "worker/0", name: "a"}, c.line); code != 1 {
				t.Errorf("%d: %s", code, says)
			}
			if !strings.Contains(w.Refused(), c.says) {
				t.Errorf("%q, want words with %q", w.Refused(), c.says)
			}
		})
	}
	s := open(t)
	w := s.lent()
	signals, ready := make(chan os.Signal, 1), filepath.Join(t.TempDir(), "ready")
	go func() {
		s.await("the program runs", func() bool { _, err := os.Stat(ready); return err == nil })
		signals <- syscall.SIGTERM
	}()
	line := `mkfifo $OUT/p; echo x > ` + ready + `; while :; do sleep 0.02; done`
	if code, says := s.runsWith(pod{member: "ps/0", name: "a"}, line, signals, time.Minute); code != 1 || !strings.Contains(w.Refused(), "ps/0 wrote cannot be kept: it wrote p") {
		t.Errorf("one that was stopped: %d: %s; %q", code, says, w.Refused())
	}
	s = open(t)
	w = s.lent()
	if code, says := s.runs(pod{member: "worker/0", name: "a"}, `exit 7`); code != 7 || w.Refused() != "" {
		t.Errorf("a program that fails: %d: %s; %q", code, says, w.Refused())
	}
}

// A foreman that takes the place of another one has what that had acknowledged.
func TestKept(t *testing.T) {
	store := t.TempDir()
	keeping := func(spec *foreman.Spec) {
		spec.Keep = func(_ context.Context, member, folder string) error {
			to := filepath.Join(store, member)
			return errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(folder)))
		}
		spec.Kept = func(_ context.Context, folder string) error { return os.CopyFS(folder, os.DirFS(store)) }
	}
	first := open(t)
	first.lent(keeping)
	if code, says := first.runs(pod{member: "worker/0", name: "a"}, `echo first > $OUT/0`); code != 0 {
		t.Fatalf("%d: %s", code, says)
	}
	second := open(t)
	w := second.lent(keeping)
	if code, says := second.runs(pod{member: "worker/1", name: "b"}, `echo second > $OUT/1`); code != 0 {
		t.Fatalf("%d: %s", code, says)
	}
	if list, err := filepath.Glob(filepath.Join(second.Folder("run.stage"), ".parts", "*", shift.OutFolder)); err != nil || len(list) > 0 {
		t.Errorf("what is in the store lies here, too: %v, %v", list, err)
	}
	if err := w.Unite(t.Context(), []string{"worker/0", "worker/1"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"0": "first\n", "1": "second\n"}, second.made(w)); diff != "" {
		t.Error(diff)
	}
	// What is not in the store any more is missed.
	if err := os.RemoveAll(filepath.Join(store, "worker-0")); err != nil {
		t.Fatal(err)
	}
	if err := w.Unite(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "worker/0") || errors.Is(err, foreman.ErrMissing) {
		t.Errorf("what is not in the store: %v", err)
	}
	// What could not be kept is not acknowledged, and comes again.
	third := open(t)
	failures := map[string]int{}
	var told []string
	w = third.lent(func(spec *foreman.Spec) {
		spec.Keep = func(_ context.Context, member, _ string) error {
			if failures[member]++; failures[member] == 1 {
				return errors.New("the bucket is away")
			}
			told = append(told, third.Find("run.stage").Status().Problem)
			return nil
		}
	})
	if code, says := third.runs(pod{member: "worker/0", name: "a"}, "true"); code != 0 {
		t.Errorf("%d: %s", code, says)
	}
	want := []string{"noting that worker/0 has begun: the bucket is away", "keeping what worker/0 wrote: the bucket is away"}
	if diff := cmp.Diff(want, told); diff != "" || w.Status().Problem != "" {
		t.Errorf("%s; then %q", diff, w.Status().Problem)
	}
}

// A foreman that is started anew on the same disk goes on.
func TestPartsStay(t *testing.T) {
	s := open(t)
	w := s.lent()
	if code, says := s.runs(pod{member: "worker/0", name: "a"}, `echo x > $OUT/made`); code != 0 {
		t.Fatalf("%d: %s", code, says)
	}
	if err := w.Lend(); err != nil {
		t.Fatal(err)
	}
	w.Stop()
	f, err := foreman.New(foreman.Options{Dir: s.Dir()})
	if err != nil {
		t.Fatal(err)
	}
	s.Foreman = f
	w = s.lent()
	defer w.Stop()
	if err := w.Unite(t.Context(), []string{"worker/0"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"made": "x\n"}, s.made(w)); diff != "" {
		t.Error(diff)
	}
	w.Conclude(shift.Outcome{ID: "0"})
	if status := s.over(w); status.Computed != 1 || s.recorded["all"] != "x\n" {
		t.Errorf("%+v, %v", status, s.recorded)
	}
}

// Members of a stage that is over end, and wait for nobody.
func TestOver(t *testing.T) {
	s := open(t)
	s.lent()
	ready := filepath.Join(t.TempDir(), "ready")
	go func() {
		s.await("the program runs", func() bool { _, err := os.Stat(ready); return err == nil })
		if err := s.Close("run.stage"); err != nil {
			t.Error(err)
		}
		if err := os.Remove(ready); err != nil {
			t.Error(err)
		}
	}()
	code, says := s.runs(pod{member: "worker/0", name: "a"}, `echo x > `+ready+`; while [ -e `+ready+` ]; do sleep 0.02; done; exit 6`)
	if code != 6 || !strings.Contains(says, "not wanted any more") {
		t.Errorf("%d: %s", code, says)
	}
}

// Who is no member of a job gets nothing.
func TestStranger(t *testing.T) {
	s := open(t)
	s.lent()
	if code, says := s.runs(pod{member: "../../etc/0", name: "a"}, "true"); code != 1 || !strings.Contains(says, "a member of a job is expected") {
		t.Errorf("%d: %s", code, says)
	}
	other := open(t)
	other.work(shell("true"), "a")
	if code, _ := other.runs(pod{member: "worker/0", name: "a"}, "true"); code != 1 {
		t.Errorf("%d", code)
	}
}

// ask asks for the files of the stage, as a pod that never says anything again.
func (s *shop) ask(p pod, method, path string) int {
	s.Helper()
	return s.says(p, method, path, http.NoBody).Code
}

// says is what such a pod is told.
func (s *shop) says(p pod, method, path string, body io.Reader) *httptest.ResponseRecorder {
	s.Helper()
	in := httptest.NewRequest(method, shift.Path+"run.stage"+path, body).WithContext(s.Context())
	in.Header.Set(shift.MemberHeader, p.member)
	in.Header.Set(shift.PodHeader, p.name)
	in.Header.Set(shift.BornHeader, fmt.Sprint(p.born))
	in.Header.Set(shift.JobHeader, p.job)
	in.Header.Set(shift.AttemptHeader, fmt.Sprint(p.attempt))
	out := httptest.NewRecorder()
	s.HandlerFor("team").ServeHTTP(out, in)
	return out
}

// Who has begun is known to a foreman that takes the place of another one.
func TestBegunKept(t *testing.T) {
	store := t.TempDir()
	keeping := func(spec *foreman.Spec) {
		spec.Keep = func(_ context.Context, member, folder string) error {
			to := filepath.Join(store, member)
			return errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(folder)))
		}
		spec.Kept = func(_ context.Context, folder string) error { return os.CopyFS(folder, os.DirFS(store)) }
	}
	first := open(t)
	w := first.lent(keeping)
	first.await("the files are there", func() bool { return w.Status().Local })
	var group sync.WaitGroup
	for i := range 5 {
		group.Go(func() {
			if code := first.ask(pod{member: fmt.Sprint("ps/", i), name: fmt.Sprint("p", i)}, http.MethodGet, shift.SharedPath); code != http.StatusOK {
				t.Errorf("ps/%d: %d", i, code)
			}
		})
	}
	group.Wait()
	second := open(t)
	w = second.lent(keeping)
	for i := range 5 {
		if err := w.Unite(t.Context(), nil); !errors.Is(err, foreman.ErrMissing) || !strings.Contains(err.Error(), fmt.Sprint("ps/", i)) {
			t.Errorf("before ps/%d has brought something: %v", i, err)
		}
		if code, says := second.runs(pod{member: fmt.Sprint("ps/", i), name: fmt.Sprint("p", i)}, "true"); code != 0 {
			t.Errorf("%d: %s", code, says)
		}
	}
	if err := w.Unite(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// What can never be kept is refused in words.
func TestNeverKept(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		says string
	}{
		"refused":  {parcel.Refuse("it is too deep"), "it is too deep"},
		"too long": {&os.PathError{Op: "open", Path: "x", Err: syscall.ENAMETOOLONG}, "shorter paths"},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			w := s.lent(func(spec *foreman.Spec) {
				spec.Keep = func(_ context.Context, member, _ string) error {
					if member != "worker-0" {
						return nil
					}
					return c.err
				}
			})
			if code, says := s.runs(pod{member: "worker/0", name: "a"}, `echo x > $OUT/x`); code != 1 || !strings.Contains(says, c.says) {
				t.Errorf("%d: %s", code, says)
			}
			if !strings.Contains(w.Refused(), "worker/0") || !strings.Contains(w.Refused(), c.says) || w.Status().Problem != "" {
				t.Errorf("%q, %+v", w.Refused(), w.Status())
			}
		})
	}
}

// Once it is concluded what became of the datum, its output is the recorder's.
func TestConcluded(t *testing.T) {
	s := open(t)
	reads, further := make(chan string), make(chan struct{})
	w := s.lent(func(spec *foreman.Spec) {
		record := spec.Record
		spec.Record = func(ctx context.Context, results []foreman.Result) error {
			reads <- results[0].Folder
			<-further
			return record(ctx, results)
		}
	})
	if code, says := s.runs(pod{member: "worker/0", name: "a"}, `echo x > $OUT/made`); code != 0 {
		t.Fatalf("%d: %s", code, says)
	}
	if err := w.Unite(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	w.Conclude(shift.Outcome{ID: "0"})
	out := filepath.Join(<-reads, shift.OutFolder)
	before, err := os.Stat(out)
	if err = errors.Join(err, w.Unite(t.Context(), nil)); err != nil {
		t.Fatal(err)
	}
	w.Conclude(shift.Outcome{ID: "0", Error: "too late"})
	if after, err := os.Stat(out); err != nil || !os.SameFile(before, after) {
		t.Errorf("the output was replaced while it was read: %v", err)
	}
	close(further)
	if status := s.over(w); status.Computed != 1 || status.Failed != 0 {
		t.Errorf("%+v", status)
	}
	goes := func() bool { _, err := os.Stat(filepath.Dir(out)); return errors.Is(err, os.ErrNotExist) }
	s.await("what is recorded goes", goes)
	if err := w.Unite(t.Context(), nil); err != nil || !goes() {
		t.Errorf("the folder of what is recorded is there again, or %v", err)
	}
}

// A work that is closed keeps nothing any more.
func TestClosedKeepsNothing(t *testing.T) {
	s := open(t)
	keeps := make(chan struct{})
	closed := make(chan struct{})
	s.lent(func(spec *foreman.Spec) {
		spec.Keep = func(ctx context.Context, member, _ string) error {
			if member != "worker-0" {
				return nil
			}
			keeps <- struct{}{}
			<-ctx.Done()
			select { // nothing can say that closing waits
			case <-closed:
				t.Error("it was still being kept when the work was closed")
			case <-time.After(100 * time.Millisecond):
			}
			return ctx.Err()
		}
	})
	go func() {
		<-keeps
		if err := s.Close("run.stage"); err != nil {
			t.Error(err)
		}
		close(closed)
	}()
	if code, says := s.runs(pod{member: "worker/0", name: "a"}, `echo x > $OUT/made`); code != 0 || !strings.Contains(says, "not wanted any more") {
		t.Errorf("%d: %s", code, says)
	}
}

// Pods of a job before are not heard, and what they brought does not count.
func TestFormerJob(t *testing.T) {
	s := open(t)
	w := s.lent()
	if code, says := s.runs(pod{member: "worker/0", name: "a", born: 9, job: "first"}, `echo old > $OUT/made`); code != 0 {
		t.Fatalf("%d: %s", code, says)
	}
	w.For("second")
	if err := w.Unite(t.Context(), []string{"worker/0"}); !errors.Is(err, foreman.ErrMissing) {
		t.Errorf("what a job before wrote counts: %v", err)
	}
	for path, method := range map[string]string{shift.SharedPath: http.MethodGet, shift.PartPath: http.MethodPut} {
		if code := s.ask(pod{member: "worker/1", name: "b", born: 9, job: "first"}, method, path); code != shift.StatusGone {
			t.Errorf("%s of a pod of a job before: %d", method, code)
		}
	}
	if code, says := s.runs(pod{member: "worker/0", name: "c", born: 9, job: "second"}, `echo new > $OUT/made`); code != 0 {
		t.Fatalf("%d: %s", code, says)
	}
	if err := w.Unite(t.Context(), []string{"worker/0"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"made": "new\n"}, s.made(w)); diff != "" {
		t.Error(diff)
	}
}

// A work whose datums are given out takes no parts.
func TestNotLent(t *testing.T) {
	s := open(t)
	w := s.lent(func(spec *foreman.Spec) { spec.Lent = false })
	if code := s.ask(pod{member: "worker/0", name: "a"}, http.MethodPut, shift.PartPath); code != shift.StatusRefused || w.Refused() != "" {
		t.Errorf("%d, %q", code, w.Refused())
	}
}

// TestLogsOfMembers: the output of a job's members becomes the log of the datum, also of those that
// failed, and the reason has the last lines.
func TestLogsOfMembers(t *testing.T) {
	s := open(t)
	w := s.lent()
	raise := "printf 'loading\\n'; printf 'Traceback (most recent call last):\\n  File \"t.py\", line 1\\nValueError: no labels\\n' >&2; exit 3"
	if code, said := s.runs(pod{member: "worker/1", name: "b", born: 1}, raise); code != 3 || !strings.Contains(said, "loading") {
		t.Errorf("it ended with %d, and said %q", code, said)
	}
	// A process that it leaves behind holds its output open, and the worker does not wait for that.
	if code, said := s.runs(pod{member: "worker/0", name: "a", born: 1}, "echo fine; setsid sleep 60 & exit 0"); code != 0 || !strings.Contains(said, "fine") {
		t.Errorf("it ended with %d, and said %q", code, said)
	}
	why, err := w.Said(t.Context())
	if want := `worker/1: the program ended with exit code 3, and its log ends with: Traceback (most recent call last): |   File "t.py", line 1 | ValueError: no labels`; err != nil || why != want {
		t.Errorf("%q, %v, want %q", why, err, want)
	}
	d, _ := w.Only()
	got, err := os.ReadFile(filepath.Join(d.Folder, shift.LogFile))
	if want := "==> worker/0 <==\nfine\n==> worker/1 <==\nloading\nTraceback"; err != nil || !strings.HasPrefix(string(got), want) {
		t.Errorf("the log is %q, %v", got, err)
	}
	// Those with all parts make the output, and the log.
	if err := w.Unite(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(filepath.Join(d.Folder, shift.LogFile)); err != nil || !bytes.Equal(again, got) {
		t.Errorf("then it is %q, %v", again, err)
	}
}
