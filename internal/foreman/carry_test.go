package foreman_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/foreman"
	"github.com/muster-dev/muster/internal/foreman/shift"
	"github.com/muster-dev/muster/internal/foreman/worker"
)

// envPost makes this test's program a worker, to be killed like one, and envWork one that only
// shares the foreman's folder, with these temporary folders.
const (
	envPost      = "MUSTER_TEST_POST"
	envWork      = "MUSTER_TEST_WORK"
	envTemporary = "MUSTER_TEST_TEMPORARY"
)

func TestMain(m *testing.M) {
	if folder := os.Getenv(envWork); folder != "" {
		name := fmt.Sprint("process ", os.Getpid())
		err := worker.Run(context.Background(), worker.Options{Folder: folder, Name: name, Member: name, Environ: os.Environ(), Out: os.Stderr, Dedicated: true, Temporary: filepath.SplitList(os.Getenv(envTemporary))})
		if err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if post := os.Getenv(envPost); post != "" {
		err := worker.Run(context.Background(), worker.Options{
			Post: post, Work: "run.stage", Scratch: os.Getenv("MUSTER_TEST_SCRATCH"), Name: fmt.Sprint("process ", os.Getpid()), Member: "0", Environ: os.Environ(), Out: os.Stderr,
		})
		if err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// apart is a program whose workers do not share the foreman's folder.
func apart(line string) shift.Program {
	p := shell(line)
	p.Carried = true
	return p
}

// remote is a worker that sees a post and nothing else.
func (s *shop) remote(ctx context.Context, post, member string) error {
	return worker.Run(ctx, worker.Options{Post: post, Work: "run.stage", Scratch: s.TempDir(), Name: member, Member: member, Environ: os.Environ(), Out: io.Discard})
}

// process starts a worker as a process of its own.
func (s *shop) process(post string) *exec.Cmd {
	s.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envPost+"="+post, "MUSTER_TEST_SCRATCH="+s.TempDir())
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	return cmd
}

// await waits for what nothing signals: files that a process writes.
func (s *shop) await(what string, there func() bool) {
	s.Helper()
	for deadline := time.Now().Add(20 * time.Second); !there(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatal("waited in vain: " + what)
		}
	}
}

// TestCarriedThroughALink: in the plain tier the worker's folder is a link. A program that resolves its paths
// may link to its input by them.
func TestCarriedThroughALink(t *testing.T) {
	s := open(t)
	w := s.work(apart(`ln -s "$(realpath $MUSTER_INPUT_IN)/name" $MUSTER_OUTPUT/made`), "a")
	folder := filepath.Join(t.TempDir(), "datums")
	if err := os.Symlink(t.TempDir(), folder); err != nil {
		t.Fatal(err)
	}
	err := worker.Run(t.Context(), worker.Options{Post: s.Post("run.stage"), Work: "run.stage", Scratch: folder, Name: "w", Member: "w", Environ: os.Environ(), Out: io.Discard})
	if status := s.over(w); err != nil || status.Computed != 1 || s.recorded["a"] != "a" {
		t.Errorf("%+v, recorded %q, error %v", status, s.recorded, err)
	}
}

func TestCarried(t *testing.T) {
	s := open(t)
	var names []string
	want := map[string]string{}
	for i := range 100 {
		name := fmt.Sprintf("d%03d", i)
		names, want[name] = append(names, name), name+" "+name
	}
	w := s.work(apart(`test -z "$(ls $MUSTER_OUTPUT)" || exit 9
		mkdir $MUSTER_OUTPUT/deep; cp $MUSTER_INPUT_IN/name $MUSTER_OUTPUT/deep/first; ln -s deep/first $MUSTER_OUTPUT/link
		echo "$(cat $MUSTER_OUTPUT/link) $MUSTER_DATUM" | tr -d '\n' > $MUSTER_OUTPUT/made`), names...)
	var group sync.WaitGroup
	for i := range 3 {
		group.Go(func() {
			if err := s.remote(t.Context(), s.Post("run.stage"), fmt.Sprint(i)); err != nil {
				t.Error(err)
			}
		})
	}
	status := s.over(w)
	group.Wait()
	if diff := cmp.Diff(want, s.recorded); diff != "" || status.Computed != 100 {
		t.Errorf("%+v: %s", status, diff)
	}
	if err := s.Close("run.stage"); err != nil {
		t.Error(err)
	}
	if err := s.remote(t.Context(), s.Post("run.stage"), "late"); err != nil {
		t.Errorf("a worker of a work that is over: %v", err)
	}
}

// A datum that fails is tried again, and what was said of it the first time is
// there the second time, and in the end.
func TestCarriedLog(t *testing.T) {
	s := open(t)
	var log string
	spec := foreman.Spec{
		Name: "run.stage", Tries: 2, Fetch: s.fetch, Datums: []foreman.Datum{{ID: "0", Name: "a"}},
		Program: apart(`echo a try; exit 3`),
		Record: func(_ context.Context, results []foreman.Result) error {
			text, err := os.ReadFile(filepath.Join(results[0].Folder, shift.LogFile))
			log = string(text)
			return err
		},
	}
	w, err := s.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.remote(t.Context(), s.Post("run.stage"), "0"); err != nil {
		t.Fatal(err)
	}
	status := s.over(w)
	if status.Failed != 1 || status.First.Tries != 2 || status.First.Exit != 3 || log != "a try\na try\n" {
		t.Errorf("%+v said %q", status.First, log)
	}
}

func TestCarriedBatch(t *testing.T) {
	s := open(t)
	p := apart(`while d=$($MUSTER_NEXT) && [ -n "$d" ]; do
	   out=$(echo "$d" | sed 's/.*"output":"\([^"]*\)".*/\1/')
	   case "$d" in *'"name":"b"'*) exit 3;; esac
	   echo fine > $out/made
	 done`)
	p.Batch = true
	w := s.work(p, "a", "b", "c")
	if err := s.remote(t.Context(), s.Post("run.stage"), "0"); err != nil {
		t.Fatal(err)
	}
	s.over(w)
	want := map[string]string{"a": "fine\n", "b": "the program ended with exit code 3", "c": "fine\n"}
	if diff := cmp.Diff(want, s.recorded); diff != "" {
		t.Error(diff)
	}
}

// A worker is killed while what it made is on its way: another one computes it.
func TestKilledWhileSending(t *testing.T) {
	s := open(t)
	w, err := s.Open(t.Context(), foreman.Spec{
		Name: "run.stage", Tries: 2, Fetch: s.fetch, Record: s.record, Datums: []foreman.Datum{{ID: "0", Name: "a"}},
		Program: apart(`echo whole > $MUSTER_OUTPUT/made; truncate -s 150M $MUSTER_OUTPUT/zeros`),
	})
	if err != nil {
		t.Fatal(err)
	}
	first := s.process(s.Post("run.stage"))
	s.await("something has arrived", func() bool {
		found, _ := filepath.Glob(filepath.Join(s.Folder("run.stage"), ".arriving-*", shift.OutFolder, "zeros"))
		return len(found) > 0
	})
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait() // it was killed
	if status := w.Status(); status.Computed+status.Failed != 0 {
		t.Fatalf("it was fast: %+v", status)
	}
	second := s.process(s.Post("run.stage"))
	status := s.over(w)
	if err := second.Wait(); err != nil {
		t.Error(err)
	}
	if status.Computed != 1 || s.recorded["a"] != "whole\n" {
		t.Errorf("%+v, %v", status, s.recorded)
	}
	if left, _ := filepath.Glob(filepath.Join(s.Folder("run.stage"), ".arriving-*")); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

// The foreman is stopped while something arrives, and started anew: the worker
// brings it again, and nothing is computed twice.
func TestForemanStopsWhileReceiving(t *testing.T) {
	dir := t.TempDir()
	count := filepath.Join(t.TempDir(), "count")
	s := &shop{T: t, recorded: map[string]string{}}
	program := apart(`echo x >> ` + count + `; echo whole > $MUSTER_OUTPUT/made; truncate -s 150M $MUSTER_OUTPUT/zeros`)
	begin := func() (stop func()) {
		var err error
		if s.Foreman, err = foreman.New(foreman.Options{Dir: dir}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		f := s.Foreman
		go func() { done <- f.Run(ctx) }()
		return sync.OnceFunc(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
	stop := begin()
	s.work(program, "a")
	process := s.process(s.Post("run.stage"))
	s.await("something has arrived", func() bool {
		found, _ := filepath.Glob(filepath.Join(s.Folder("run.stage"), ".arriving-*", shift.OutFolder, "zeros"))
		return len(found) > 0
	})
	stop()
	defer begin()()
	w := s.work(program, "a")
	status := s.over(w)
	if err := process.Wait(); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(count)
	if err != nil || string(text) != "x\n" || status.Computed != 1 || s.recorded["a"] != "whole\n" {
		t.Errorf("computed %q times, %v: %+v, %v", text, err, status, s.recorded)
	}
}

// cutting is a post by which streams break: each connection after so many bytes
// more than the one before, in either direction.
func (s *shop) cutting(step int64) string {
	s.Helper()
	post, real := s.TempDir(), s.Post("run.stage")
	token, err := os.ReadFile(filepath.Join(real, shift.TokenFile))
	if err == nil {
		err = os.WriteFile(filepath.Join(post, shift.TokenFile), token, 0o600)
	}
	if err != nil {
		s.Fatal(err)
	}
	dial := func(folder string) string {
		at, err := os.Open(folder)
		if err != nil {
			s.Fatal(err)
		}
		s.Cleanup(func() { _ = at.Close() })
		return fmt.Sprintf("/proc/self/fd/%d/%s", at.Fd(), shift.SocketFile)
	}
	listener, err := (&net.ListenConfig{}).Listen(s.Context(), "unix", dial(post))
	if err != nil {
		s.Fatal(err)
	}
	target := dial(real)
	var allowed atomic.Int64
	var group sync.WaitGroup
	group.Go(func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			left := allowed.Add(step)
			group.Go(func() {
				to, err := net.Dial("unix", target)
				if err != nil {
					_ = from.Close()
					return
				}
				both := func() { _, _ = from.Close(), to.Close() }
				var ways sync.WaitGroup
				ways.Go(func() { _, _ = io.CopyN(to, from, left); both() })
				ways.Go(func() { _, _ = io.CopyN(from, to, left); both() })
				ways.Wait()
			})
		}
	})
	s.Cleanup(func() {
		_ = listener.Close()
		group.Wait()
	})
	return post
}

func TestBrokenStreams(t *testing.T) {
	s := open(t)
	big := strings.Repeat("0123456789", 20_000)
	spec := foreman.Spec{
		Name: "run.stage", Program: apart(`cat $MUSTER_INPUT_IN/big > $MUSTER_OUTPUT/made`), Tries: 1, Record: s.record,
		Datums: []foreman.Datum{{ID: "0", Name: "a"}, {ID: "1", Name: "b"}},
		Fetch: func(_ context.Context, _ foreman.Datum, folder *os.Root) error {
			return errors.Join(folder.Mkdir("in", 0o755), folder.WriteFile("in/big", []byte(big), 0o600))
		},
	}
	w, err := s.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	post := s.cutting(40_000)
	go func() { ended <- s.remote(t.Context(), post, "0") }()
	status := s.over(w)
	if err := s.Close("run.stage"); err != nil {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(post, shift.TokenFile)); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if status.Computed != 2 || s.recorded["a"] != big || s.recorded["b"] != big {
		t.Errorf("%+v: %d and %d bytes, want %d", status, len(s.recorded["a"]), len(s.recorded["b"]), len(big))
	}
}

// knock sends something to the post, as no worker would.
func (s *shop) knock(method, path string, token string, body io.Reader) (int, string) {
	s.Helper()
	folder, err := os.Open(s.Post("run.stage"))
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = folder.Close() }()
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), shift.SocketFile))
	}}}
	request, err := http.NewRequestWithContext(s.Context(), method, "http://foreman"+shift.Path+path, body)
	if err != nil {
		s.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := client.Do(request)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(text)
}

func TestBadParcels(t *testing.T) {
	s := open(t)
	s.work(apart("true"), "a")
	text, err := os.ReadFile(filepath.Join(s.Post("run.stage"), shift.TokenFile))
	if err != nil {
		t.Fatal(err)
	}
	token := string(text)
	outcome := func(id string) *tar.Header {
		return &tar.Header{Typeflag: tar.TypeReg, Name: shift.OutcomeFile, Size: int64(len(`{"id":""}`) + len(id)), Uname: id}
	}
	for name, c := range map[string]struct {
		id      string
		headers []*tar.Header
		cut     int
		status  int
		says    string
	}{
		"unknown datum":     {"7", nil, 0, shift.StatusGone, "no such datum"},
		"out of its folder": {"0", []*tar.Header{{Typeflag: tar.TypeReg, Name: "out/../../../x"}}, 0, shift.StatusRefused, `".."`},
		"the token":         {"0", []*tar.Header{{Typeflag: tar.TypeReg, Name: "token"}}, 0, shift.StatusRefused, "none of what is expected"},
		"a device":          {"0", []*tar.Header{{Typeflag: tar.TypeChar, Name: "out/null", Devmajor: 1, Devminor: 3}}, 0, shift.StatusRefused, "a device"},
		"no outcome":        {"0", []*tar.Header{{Typeflag: tar.TypeDir, Name: "out/"}}, 0, shift.StatusRefused, "outcome.json is missing"},
		"another's outcome": {"0", []*tar.Header{outcome("1")}, 0, shift.StatusRefused, "not the outcome of datum 0"},
		"cut":               {"0", []*tar.Header{outcome("0")}, 1024, http.StatusServiceUnavailable, "before everything had come"},
	} {
		t.Run(name, func(t *testing.T) {
			var stream bytes.Buffer
			w := tar.NewWriter(&stream)
			for _, h := range append(c.headers, &tar.Header{Typeflag: tar.TypeReg, Name: "end"}) {
				if err := w.WriteHeader(&tar.Header{Typeflag: h.Typeflag, Name: h.Name, Size: h.Size, Devmajor: h.Devmajor, Devminor: h.Devminor}); err != nil {
					t.Fatal(err)
				}
				if h.Size > 0 {
					_, _ = fmt.Fprintf(w, `{"id":"%s"}`, h.Uname)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			body := stream.Bytes()
			if c.cut > 0 {
				body = body[:c.cut]
			}
			status, said := s.knock(http.MethodPut, "run.stage/datums/"+c.id+"?worker=w", token, bytes.NewReader(body))
			if status != c.status || !strings.Contains(said, c.says) {
				t.Errorf("%d %s, want %d and %q", status, said, c.status, c.says)
			}
		})
	}
	if status, _ := s.knock(http.MethodGet, "run.stage/datums/0?worker=w", token, nil); status != shift.StatusGone {
		t.Errorf("a datum that it was not given: %d", status)
	}
	if status, _ := s.knock(http.MethodGet, "run.stage/datums/0?worker=w", "guessed", nil); status != http.StatusUnauthorized {
		t.Errorf("a guessed token: %d", status)
	}
	if found, _ := filepath.Glob(filepath.Join(s.Dir(), "x")); len(found) > 0 {
		t.Error("it wrote outside")
	}
}

// The foreman is started anew under a worker that shares its folder: what it has is
// left to it, begun or not, and is not written anew under its hands.
func TestForemanStartedAnewUnderAWorker(t *testing.T) {
	for _, carried := range []bool{false, true} {
		t.Run(fmt.Sprint("carried ", carried), func(t *testing.T) {
			dir, gate := t.TempDir(), filepath.Join(t.TempDir(), "gate")
			s := &shop{T: t, recorded: map[string]string{}}
			program := shell(`echo x >> ` + gate + `.$MUSTER_DATUM; printf half > $MUSTER_OUTPUT/made
				until [ -e ` + gate + ` ]; do sleep 0.05; done; printf " and half" >> $MUSTER_OUTPUT/made`)
			program.Carried = carried
			start := func() (stop func()) {
				var err error
				if s.Foreman, err = foreman.New(foreman.Options{Dir: dir}); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				done, f := make(chan error, 1), s.Foreman
				go func() { done <- f.Run(ctx) }()
				return sync.OnceFunc(func() {
					cancel()
					if err := <-done; err != nil {
						t.Error(err)
					}
				})
			}
			stop := start()
			s.work(program, "a", "b", "c")
			ended := make(chan error, 1)
			go func() {
				if carried {
					ended <- s.remote(t.Context(), s.Post("run.stage"), "0")
				} else {
					ended <- s.worker(t.Context(), "0")
				}
			}()
			s.await("the first is begun", func() bool {
				found, _ := filepath.Glob(gate + ".*")
				return len(found) > 0
			})
			stop()
			defer start()()
			w := s.work(program, "a", "b", "c")
			other := make(chan error, 1)
			go func() {
				if carried {
					other <- s.remote(t.Context(), s.Post("run.stage"), "1")
				} else {
					other <- s.worker(t.Context(), "1")
				}
			}()
			// The other computes what nobody has, or finds that there is nothing.
			s.await("the worker has said what it has", func() bool { return !w.Waits() })
			if err := os.WriteFile(gate, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			status := s.over(w)
			for _, c := range []chan error{ended, other} {
				if err := <-c; err != nil {
					t.Error(err)
				}
			}
			for _, name := range []string{"a", "b", "c"} {
				times, _ := os.ReadFile(gate + "." + name)
				if string(times) != "x\n" || s.recorded[name] != "half and half" {
					t.Errorf("%s was computed %q times, and is %q", name, times, s.recorded[name])
				}
			}
			if status.Computed != 3 {
				t.Errorf("%+v", status)
			}
		})
	}
}

// What was lent is not written anew by a foreman that is started anew, however long
// it takes.
func TestLent(t *testing.T) {
	dir := t.TempDir()
	fetched := 0
	s := &shop{T: t, recorded: map[string]string{}}
	now := time.Now()
	start := func() *foreman.Work {
		var err error
		if s.Foreman, err = foreman.New(foreman.Options{Dir: dir, Now: func() time.Time { return now }}); err != nil {
			t.Fatal(err)
		}
		w, err := s.Open(t.Context(), foreman.Spec{
			Name: "run.stage", Lent: true, Tries: 1, Record: s.record, Datums: []foreman.Datum{{ID: "0", Name: "a"}},
			Fetch: func(ctx context.Context, d foreman.Datum, folder *os.Root) error {
				fetched++
				return s.fetch(ctx, d, folder)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		s.await("its files are there", func() bool { return w.Status().Local })
		return w
	}
	first := start()
	if err := first.Lend(); err != nil {
		t.Fatal(err)
	}
	d, _ := first.Only()
	if err := os.WriteFile(filepath.Join(d.Folder, shift.OutFolder, "made"), []byte("so far"), 0o600); err != nil {
		t.Fatal(err)
	}
	first.Stop()
	now = now.Add(time.Hour)
	second := start()
	second.Expire()
	second.Conclude(shift.Outcome{ID: "0"})
	status := s.over(second)
	if status.Computed != 1 || s.recorded["a"] != "so far" || fetched != 1 {
		t.Errorf("%+v, %v, fetched %d times", status, s.recorded, fetched)
	}
	if err := s.Close("run.stage"); err != nil {
		t.Error(err)
	}
}

// What arrives is bounded: what finds no room comes again, and what never would is
// refused in words.
func TestCarriedWithinBounds(t *testing.T) {
	f, err := foreman.New(foreman.Options{Dir: t.TempDir(), Arrivals: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	s := &shop{T: t, Foreman: f, recorded: map[string]string{}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	var names []string
	want := map[string]string{}
	for i := range 7 {
		name := fmt.Sprintf("d%02d", i)
		names, want[name] = append(names, name), "fine\n"
	}
	want["d03"] = "it takes more than 524288 bytes"
	w := s.work(apart(`echo fine > $MUSTER_OUTPUT/made; test $MUSTER_DATUM != d03 || size=600K; truncate -s ${size:-300K} $MUSTER_OUTPUT/zeros`), names...)
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			if err := s.remote(t.Context(), s.Post("run.stage"), fmt.Sprint(i)); err != nil {
				t.Error(err)
			}
		})
	}
	status := s.over(w)
	group.Wait()
	if said := s.recorded["d03"]; strings.Contains(said, want["d03"]) {
		s.recorded["d03"] = want["d03"]
	}
	if diff := cmp.Diff(want, s.recorded); diff != "" || status.Failed != 1 {
		t.Errorf("%+v: %s", status, diff)
	}
}

// TestAnswerThatIsLost: what was given to a worker by an answer that did not come is
// given to it again as soon as it asks for more.
func TestAnswerThatIsLost(t *testing.T) {
	s := open(t)
	w := s.work(apart("true"), "a")
	token, err := os.ReadFile(filepath.Join(s.Post("run.stage"), shift.TokenFile))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(body string) string {
		t.Helper()
		status, text := s.knock(http.MethodPost, "run.stage", string(token), strings.NewReader(body))
		if status != http.StatusOK {
			t.Fatalf("%d: %s", status, text)
		}
		return text
	}
	first := ask(`{"worker": "w", "want": 1}`)
	var given shift.Answer
	if err := json.Unmarshal([]byte(first), &given); err != nil || len(given.Datums) != 1 {
		t.Fatalf("%s: %v", first, err)
	}
	// A sign of life does not name what it asked for meanwhile.
	if again := ask(`{"worker": "w"}`); strings.Contains(again, `"datums"`) {
		t.Errorf("unasked: %s", again)
	}
	if again := ask(`{"worker": "w", "want": 1}`); !strings.Contains(again, given.Datums[0].ID) || strings.Contains(again, `"end":true`) {
		t.Errorf("asked again: %s, first %s", again, first)
	}
	if again := ask(fmt.Sprintf(`{"worker": "w", "want": 1, "has": [%q]}`, given.Datums[0].ID)); !strings.Contains(again, `"end":true`) {
		t.Errorf("having it: %s", again)
	}
	if status := w.Status(); status.Computed+status.Failed > 0 {
		t.Errorf("%+v", status)
	}
}
