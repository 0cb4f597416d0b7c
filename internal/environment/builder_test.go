//go:build linux

package environment

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/environment/confinement"
	"github.com/muster-dev/muster/internal/node/rig"
)

func TestMain(m *testing.M) { os.Exit(rig.Run(m)) }

// place returns a confinement. It confines programs if this machine allows that, as for root.
func place(t *testing.T, hidden ...string) *confinement.Confinement {
	t.Helper()
	c, err := confinement.Open(t.Context(), confinement.Options{Dir: filepath.Join(t.TempDir(), "builds"), Shim: rig.Shim(t), Hidden: hidden})
	must(t, err)
	t.Cleanup(c.Close)
	return c
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// running is a builder with its Run under way.
type running struct {
	*Builder
	log  *bytes.Buffer
	stop func()

	mu  sync.Mutex
	now time.Time
}

func (r *running) advance(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = r.now.Add(d)
}

func start(t *testing.T, opts Options) *running {
	t.Helper()
	r := &running{log: &bytes.Buffer{}, now: time.Unix(1_700_000_000, 0)}
	if opts.Dir == "" {
		opts.Dir = filepath.Join(t.TempDir(), "environments")
	}
	if opts.Place == nil {
		opts.Place = place(t)
	}
	opts.Log = slog.New(slog.NewTextHandler(r.log, nil))
	opts.Now = func() time.Time {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.now
	}
	b, err := New(opts)
	must(t, err)
	r.Builder = b
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = b.Run(ctx) })
	r.stop = func() {
		cancel()
		wg.Wait()
	}
	t.Cleanup(r.stop)
	return r
}

// patience ends shortly before the tests do. Programs that really run take as long as the machine lets
// them: no shorter time tells a slow machine from a program that hangs.
func patience(t *testing.T) <-chan time.Time {
	t.Helper()
	end, ok := t.Deadline()
	if !ok {
		return nil
	}
	return time.After(time.Until(end) - 10*time.Second)
}

// settled asks until the request is ready or has failed.
func (r *running) settled(t *testing.T, request Request) (State, []State) {
	t.Helper()
	deadline := patience(t)
	var seen []State
	for {
		s := r.Ensure(request)
		seen = append(seen, s)
		if s.Phase != Building {
			return s, seen
		}
		select {
		case <-r.Changes():
		case <-deadline:
			t.Fatalf("still %+v", s)
		}
	}
}

func TestBuildOnceAndKeep(t *testing.T) {
	r := start(t, Options{})
	request := Request{Requirements: "six==1.16.0 # small\n"}
	got, seen := r.settled(t, request)
	if got.Phase != Ready {
		t.Fatalf("%+v", got)
	}
	if seen[0].Phase != Building {
		t.Errorf("the first answer is %+v", seen[0])
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(got.Path, "bin", "python"), "-c", "import six; print(six.__version__)").CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "1.16.0" {
		t.Fatalf("%s, %v", out, err)
	}
	home := filepath.Dir(got.Path)
	if compiled, err := filepath.Glob(filepath.Join(got.Path, "lib", "python3*", "site-packages", "__pycache__", "six.*.pyc")); err != nil || len(compiled) != 1 {
		t.Errorf("six is compiled into %v, %v", compiled, err)
	}
	if _, err := os.Stat(filepath.Join(home, scratchDir)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what the installer unpacked: %v", err)
	}
	frozen, err := os.ReadFile(filepath.Join(home, freezeFile))
	if err != nil || !strings.Contains(string(frozen), "six==1.16.0") {
		t.Errorf("%s, %v", frozen, err)
	}
	if path, err := r.Path(got.Key); err != nil || path != got.Path {
		t.Errorf("Path: %q, %v", path, err)
	}
	if _, err := r.Path("../../etc"); err == nil {
		t.Error("Path takes anything")
	}

	// Another process that is led there by a link, other comments: the same environment, not built
	// again, by its own path: the link may go before others that use it.
	before, err := os.Stat(filepath.Join(home, markerFile))
	must(t, err)
	r.stop()
	link := filepath.Join(t.TempDir(), "environments")
	must(t, os.Symlink(r.opts.Dir, link))
	r = start(t, Options{Dir: link})
	again, _ := r.settled(t, Request{Requirements: "# other words\nsix==1.16.0"})
	after, err := os.Stat(filepath.Join(home, markerFile))
	must(t, err)
	if again.Key != got.Key || again.Path != got.Path || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("%+v, marker %v then %v", again, before.ModTime(), after.ModTime())
	}

	// A copy is none: it holds the path of what it was copied from.
	copied := filepath.Join(t.TempDir(), got.Key)
	must(t, os.CopyFS(copied, os.DirFS(home)))
	if _, ok := readyAt(copied); ok {
		t.Error("a copy counts as ready")
	}

	// A build that was interrupted has no marker, and is begun anew.
	must(t, os.Remove(filepath.Join(home, markerFile)))
	must(t, os.RemoveAll(filepath.Join(got.Path, "lib")))
	if _, err := r.Path(got.Key); err == nil {
		t.Error("ready without its marker")
	}
	r.stop()
	r = start(t, Options{Dir: r.opts.Dir})
	healed, _ := r.settled(t, request)
	if healed.Phase != Ready || countInstalled(healed.Path) == 0 {
		t.Errorf("%+v", healed)
	}
}

func TestUnresolvableRequirementsInTheInstallersWords(t *testing.T) {
	// An index that knows nothing, so that nothing is asked of the network.
	index := httptest.NewServer(http.NotFoundHandler())
	defer index.Close()
	address := strings.Replace(index.URL, "http://", "http://user:hush@", 1)
	r := start(t, Options{})
	request := Request{Requirements: "--index-url " + address + "\nno-such-package-here==99.9\n"}
	got, _ := r.settled(t, request)
	if got.Phase != Failed || !strings.Contains(got.Message, "No matching distribution found for no-such-package-here==99.9") {
		t.Fatalf("%+v", got)
	}
	// Asked again at once, the failure stands; after a while it is tried anew.
	if again := r.Ensure(request); again != got {
		t.Errorf("%+v", again)
	}
	r.advance(firstRetry + time.Second)
	if again := r.Ensure(request); again.Phase != Building {
		t.Errorf("%+v", again)
	}
	r.stop()
	home := r.home(got.Key)
	if _, err := os.Stat(filepath.Join(home, venvDir)); !os.IsNotExist(err) {
		t.Errorf("the failed environment is still there: %v", err)
	}
	said, err := os.ReadFile(filepath.Join(home, logFile))
	must(t, err)
	if strings.Contains(string(said)+r.log.String()+got.Message, "hush") {
		t.Errorf("the password is in the logs:\n%s\n%s\n%s", said, r.log, got.Message)
	}
}

func TestOneBuilderAKey(t *testing.T) {
	r := start(t, Options{})
	python, err := find(t.Context(), "", os.Getenv("PATH"))
	must(t, err)
	key := python.key("")
	must(t, os.MkdirAll(r.home(key), 0o755))
	held, err := os.Create(filepath.Join(r.home(key), buildLock))
	must(t, err)
	must(t, unix.Flock(int(held.Fd()), unix.LOCK_EX))
	request := Request{Python: "3"}
	deadline := patience(t)
	for s := r.Ensure(request); !strings.Contains(s.Message, "another process"); s = r.Ensure(request) {
		select {
		case <-r.Changes():
		case <-deadline:
			t.Fatalf("%+v", s)
		}
	}
	// The other one finishes.
	other := &build{home: r.home(key), key: key, python: python, tell: func(State) {}, now: time.Now}
	must(t, os.MkdirAll(filepath.Join(other.path(), "bin"), 0o755))
	must(t, os.Symlink(python.Executable, filepath.Join(other.path(), "bin", "python")))
	must(t, other.mark())
	must(t, held.Close())
	got, _ := r.settled(t, request)
	if got.Phase != Ready || got.Key != key {
		t.Errorf("%+v", got)
	}
	if entries, _ := os.ReadDir(filepath.Join(got.Path, "bin")); len(entries) != 1 {
		t.Error("it was built over")
	}
}

func TestStoppingEndsTheInstaller(t *testing.T) {
	// An index that never answers holds the installer up, for longer than any test runs.
	reached := make(chan struct{}, 10)
	index := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		reached <- struct{}{}
		<-r.Context().Done()
	}))
	defer index.Close()
	r := start(t, Options{Environ: append(os.Environ(), "PIP_DEFAULT_TIMEOUT=36000")})
	request := Request{Requirements: "-i " + index.URL + "\nsix==1.16.0"}
	deadline := patience(t)
	for asked := false; !asked; {
		if s := r.Ensure(request); s.Phase != Building {
			t.Fatalf("the installer never asked: %+v", s)
		}
		select {
		case <-reached:
			asked = true
		case <-r.Changes():
		case <-deadline:
			t.Fatalf("the installer never asked: %+v", r.Ensure(request))
		}
	}
	homes, err := os.ReadDir(r.opts.Dir)
	must(t, err)
	if unpacked, err := os.ReadDir(filepath.Join(r.opts.Dir, homes[0].Name(), scratchDir)); err != nil || len(unpacked) == 0 {
		t.Errorf("the installer has nothing in its folder: %v", err)
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		r.stop()
	}()
	select {
	case <-stopped:
	case <-deadline:
		t.Fatal("the installer still waits for the index")
	}
	lock, err := os.Open(filepath.Join(r.opts.Dir, homes[0].Name(), buildLock))
	must(t, err)
	defer func() { _ = lock.Close() }()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Errorf("the installer still holds its lock: %v", err)
	}
	if _, err := os.Stat(filepath.Join(r.opts.Dir, homes[0].Name(), scratchDir)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what the installer unpacked: %v", err)
	}
}

// script writes an executable file.
func script(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755))
}

func TestExistingEnvironment(t *testing.T) {
	python, err := find(t.Context(), "", os.Getenv("PATH"))
	must(t, err)
	good := filepath.Join(t.TempDir(), "venv")
	if out, err := exec.CommandContext(t.Context(), python.Executable, "-m", "venv", "--without-pip", good).CombinedOutput(); err != nil {
		t.Fatalf("%s %v", out, err)
	}
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o644))
	broken, strange := t.TempDir(), t.TempDir()
	script(t, filepath.Join(broken, "bin/python"), "echo cannot open libpython >&2; exit 1")
	script(t, filepath.Join(strange, "bin/python"), "echo hello")
	r := start(t, Options{})
	for name, c := range map[string]struct {
		request Request
		want    string
	}{
		"good":     {Request{Path: good + "/"}, ""},
		"missing":  {Request{Path: "/no/such/env"}, "no such file"},
		"a file":   {Request{Path: file}, "is a file"},
		"empty":    {Request{Path: t.TempDir()}, "holds no bin/python"},
		"broken":   {Request{Path: broken}, "cannot open libpython"},
		"strange":  {Request{Path: strange}, "does not answer like a Python"},
		"both":     {Request{Path: good, Requirements: "six"}, "not both"},
		"an image": {Request{Requirements: "six", Image: "tf:2"}, "not in the image tf:2"},
		"relative": {Request{Path: "venv"}, "must begin with /"},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := r.settled(t, c.request)
			if c.want != "" {
				if got.Phase != Failed || !strings.Contains(got.Message, c.want) {
					t.Errorf("%+v", got)
				}
				return
			}
			if got.Phase != Ready || got.Path != good || !strings.HasPrefix(got.Key, "path-") {
				t.Errorf("%+v", got)
			}
			if path, err := r.Path(got.Key); err != nil || path != good {
				t.Errorf("%q %v", path, err)
			}
		})
	}
}

// TestAsk bounds programs that a job brings along: their time, their output, and the variables that
// they see.
func TestAsk(t *testing.T) {
	t.Setenv("PIP_INDEX_URL", "https://user:hush@index.example.com/simple")
	at, programs := place(t), t.TempDir()
	for name, text := range map[string]string{
		"env": "env", "chatty": "yes", "wide": "head -c 100000 /dev/zero | tr '\\0' x; sleep 600", "silent": "echo up; sleep 600", "fails": "echo sorry; exit 3",
	} {
		script(t, filepath.Join(programs, name), text)
	}
	for name, c := range map[string]struct {
		limit       time.Duration
		says, fails string
	}{
		"env":    {askTimeout, "PATH=", ""},
		"chatty": {askTimeout, "y", "it printed more than 65536 bytes"},
		"wide":   {askTimeout, "", "it printed more than 65536 bytes"},
		"silent": {time.Second, "", "no answer within 1s"},
		"fails":  {askTimeout, "sorry", "exit code 3"},
	} {
		t.Run(name, func(t *testing.T) {
			said, err := askAsJob(t.Context(), at, nil, bounds{c.limit, maxSaid}, filepath.Join(programs, name))
			if !strings.Contains(said, c.says) || len(said) > maxSaid || strings.Contains(said, "hush") {
				t.Errorf("it says %d bytes: %.200q", len(said), said)
			}
			if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%v, want %q", err, c.fails)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := askAsJob(ctx, at, nil, bounds{askTimeout, maxSaid}, filepath.Join(programs, "env")); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestDescribed: the description of an interpreter becomes part of an object's status.
func TestDescribed(t *testing.T) {
	long := strings.Repeat("x", maxAnswer+1)
	for answer, ok := range map[string]bool{
		`{"version":"3.11.7","executable":"/usr/bin/python3","bases":["/usr","/usr"]}`: true,
		`{"version":"3.15.0a1+"}`:                              true,
		`{"version":"3.10.14"}`:                                true,
		`{"version":""}`:                                       false,
		`{"version":"3.11\u001b[2J"}`:                          false,
		`{"version":"3.1` + long + `"}`:                        false,
		`{"version":"3.11.7","executable":"` + long + `"}`:     false,
		`{"version":"3.11.7","bases":["/usr","` + long + `"]}`: false,
		`{"version":"3.11.7","bases":["/a","/b","/c"]}`:        false,
		`{"version":"3.11.7","platform":"` + long + `"}`:       false,
		`{"version":"3.11.7"} {"version":"3.12.1"}`:            false,
		`[]`: false, "": false,
	} {
		if got, err := described("/venv/bin/python", []byte(answer)); (err == nil) != ok || ok && got.Executable == "" {
			t.Errorf("%.80s: %+v, %v", answer, got, err)
		}
	}
}

func TestFindPython(t *testing.T) {
	dir := t.TempDir()
	fake := func(version string) string {
		return fmt.Sprintf(`echo '{"executable":"/fake/%s","version":"%s","implementation":"cpython x","platform":"p","prefix":"/"}'`, version, version)
	}
	script(t, filepath.Join(dir, "a", "python3"), fake("3.9.2"))
	script(t, filepath.Join(dir, "a", "python3.11"), "echo 'not installed' >&2; exit 127") // a shim
	script(t, filepath.Join(dir, "b", "python3.11"), fake("3.11.7"))
	search := filepath.Join(dir, "a") + ":" + filepath.Join(dir, "b") + ":relative"
	for wanted, want := range map[string]string{"": "3.9.2", "3": "3.9.2", "3.11": "3.11.7", "3.9": "3.9.2"} {
		got, err := find(t.Context(), wanted, search)
		if err != nil || got.Version != want {
			t.Errorf("%q: %+v %v", wanted, got, err)
		}
	}
	if _, err := find(t.Context(), "3.1", search); err == nil || !strings.Contains(err.Error(), "no Python 3.1 on this machine, only 3.9.2") {
		t.Errorf("3.1: %v", err)
	}
	if _, err := find(t.Context(), "", t.TempDir()); err == nil || !strings.Contains(err.Error(), "there is no Python 3 on this machine") {
		t.Errorf("none: %v", err)
	}
}
