package process

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/rig"
)

func TestMain(m *testing.M) { os.Exit(rig.Run(m)) }

// newRuntime returns a Runtime over a folder of the test's own. What still
// runs when the test ends is killed.
func newRuntime(t testing.TB) *Runtime {
	t.Helper()
	return openRuntime(t, t.TempDir())
}

// openRuntime is newRuntime over a given folder.
func openRuntime(t testing.TB, root string) *Runtime {
	t.Helper()
	r, err := New(Options{Root: root, Shim: rig.Shim(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		again, err := New(Options{Root: root, Shim: rig.Shim(t)})
		if err != nil {
			t.Error(err)
			return
		}
		defer again.Close()
		all, err := again.Adopt(context.Background())
		if err != nil {
			t.Errorf("adopting what is left: %v", err)
		}
		for _, p := range all {
			if err := p.Kill(context.Background()); err != nil {
				t.Errorf("killing what is left: %v", err)
			}
			if err := p.Remove(); err != nil {
				t.Errorf("removing what is left: %v", err)
			}
		}
	})
	return r
}

// tiers are the ways to run a container; most behaviour is common to them.
var tiers = map[string]func(*Spec){
	"plain":    func(*Spec) {},
	"isolated": func(s *Spec) { s.Isolation = &Isolation{Hostname: "inside"} },
}

// eachTier runs a test in both tiers. The isolated one needs root.
func eachTier(t *testing.T, test func(t *testing.T, tier func(*Spec))) {
	for name, tier := range tiers {
		t.Run(name, func(t *testing.T) {
			if name == "isolated" {
				needRoot(t)
			}
			t.Parallel()
			test(t, tier)
		})
	}
}

func needRoot(t testing.TB) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: namespaces and mounts")
	}
}

// shell is a container that runs a script.
func shell(script string, options ...func(*Spec)) Spec {
	uid := strings.ToLower(rand.Text())
	s := Spec{
		ID: uid + "/main/0", PodUID: uid, Container: "main",
		Argv: []string{"/bin/sh", "-c", script},
		Env:  []string{"PATH=" + os.Getenv("PATH"), "HOME=/"},
	}
	for _, o := range options {
		if o != nil {
			o(&s)
		}
	}
	return s
}

func start(t testing.TB, r *Runtime, s Spec) *Process {
	t.Helper()
	p, err := r.Start(t.Context(), s)
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	return p
}

func wait(t testing.TB, p *Process) Exit {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(20 * time.Second):
		log, _ := os.ReadFile(filepath.Join(p.Dir(), "shim.log"))
		t.Fatalf("container %s has not ended; its shim says %q", p.Spec().ID, log)
	}
	return p.Exit()
}

// eventually polls until a condition holds that is in the kernel's hands alone:
// what /proc shows, or a file that nobody is asked to write. What a process of
// the test's own does is waited for with a rig.Pipe, its output with follow.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func readLogs(t testing.TB, p *Process, q LogQuery) string {
	t.Helper()
	r, err := p.Logs(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// follow waits until the container's output begins with a text.
func follow(t testing.TB, p *Process, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r, err := p.Logs(ctx, LogQuery{Tail: -1, Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(r, got); err != nil || string(got) != want {
		t.Fatalf("the output begins with %q, %v; want %q", got[:n], err, want)
	}
}

func output(t testing.TB, p *Process) string {
	t.Helper()
	return readLogs(t, p, LogQuery{Tail: -1})
}

// alive counts the live processes that carry a mark among their arguments.
func alive(mark string) int {
	n := 0
	folders, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range folders {
		data, err := os.ReadFile(f)
		if err != nil || !bytes.Contains(data, []byte(mark)) {
			continue
		}
		if pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(f))); pid != os.Getpid() {
			n++
		}
	}
	return n
}

func TestExitCodes(t *testing.T) {
	eachTier(t, func(t *testing.T, tier func(*Spec)) {
		r := newRuntime(t)
		for _, c := range []struct {
			name, script string
			code, signal int
			output       string
		}{
			{"success", "echo out; echo err >&2", 0, 0, "out\nerr\n"},
			{"failure", "exit 7", 7, 0, ""},
			{"signal", "kill -KILL $$", 137, 9, ""},
			{"no end of line", "printf abc", 0, 0, "abc"},
		} {
			t.Run(c.name, func(t *testing.T) {
				p := start(t, r, shell(c.script, tier))
				exit := wait(t, p)
				if exit.Code != c.code || exit.Signal != c.signal || exit.Err != "" {
					t.Errorf("exit = %+v, want code %d, signal %d", exit, c.code, c.signal)
				}
				if got := output(t, p); len(got) != len(c.output) {
					t.Errorf("output = %q, want %q", got, c.output)
				}
				if exit.StartedAt.IsZero() || exit.FinishedAt.Before(exit.StartedAt) {
					t.Errorf("times are wrong: %+v", exit)
				}
				if err := p.Remove(); err != nil {
					t.Error(err)
				}
				if _, err := os.Stat(p.Dir()); !os.IsNotExist(err) {
					t.Errorf("the folder is still there: %v", err)
				}
			})
		}
	})
}

func TestStartErrors(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := write("plain.py", "print(1)\n", 0o644)
	garbage := write("garbage", "neither\n", 0o755)
	orphan := write("orphan", "#!/no/such/interpreter\n", 0o755)
	eachTier(t, func(t *testing.T, tier func(*Spec)) {
		r := newRuntime(t)
		for _, c := range []struct {
			name   string
			change func(*Spec)
			reason Reason
			code   int
			words  string
		}{
			{"not in PATH", func(s *Spec) { s.Argv = []string{"no-such-command"} }, ReasonNotFound, 127, `command not found: "no-such-command" is in none of the folders of PATH`},
			{"no such file", func(s *Spec) { s.Argv = []string{"/no/such"} }, ReasonNotFound, 127, "/no/such does not exist"},
			{"not executable", func(s *Spec) { s.Argv = []string{plain} }, ReasonNotExecutable, 126, "chmod +x"},
			{"a folder", func(s *Spec) { s.Argv = []string{dir} }, ReasonNotExecutable, 126, "it is a directory"},
			{"no program", func(s *Spec) { s.Argv = []string{garbage} }, ReasonNotExecutable, 126, "exec format error"},
			{"no interpreter", func(s *Spec) { s.Argv = []string{orphan} }, ReasonNotFound, 127, "(#!/no/such/interpreter)"},
			{"no folder", func(s *Spec) { s.Dir = "/no/such" }, ReasonDirectory, 128, "/no/such does not exist"},
			{"folder is a file", func(s *Spec) { s.Dir = plain }, ReasonDirectory, 128, "is no directory"},
		} {
			t.Run(c.name, func(t *testing.T) {
				s := shell("true", tier, c.change)
				_, err := r.Start(t.Context(), s)
				var start *StartError
				if !errors.As(err, &start) {
					t.Fatalf("Start = %v, want a *StartError", err)
				}
				if start.Reason != c.reason || start.Code != c.code || !strings.Contains(start.Message, c.words) {
					t.Errorf("Start = %s %d %q, want %s %d %q", start.Reason, start.Code, start.Message, c.reason, c.code, c.words)
				}
				if _, err := os.Stat(r.folder(s)); !os.IsNotExist(err) {
					t.Errorf("the folder is still there: %v", err)
				}
			})
		}
	})
}

func TestValidate(t *testing.T) {
	r := newRuntime(t)
	for name, change := range map[string]func(*Spec){
		"ID of another":    func(s *Spec) { s.ID = "x/y/0" },
		"climbing":         func(s *Spec) { s.PodUID, s.ID = "..", "../main/0" },
		"slash":            func(s *Spec) { s.Container, s.ID = "a/b", s.PodUID+"/a/b/0" },
		"negative restart": func(s *Spec) { s.Restart, s.ID = -1, s.PodUID+"/main/-1" },
		"no command":       func(s *Spec) { s.Argv = nil },
		"relative folder":  func(s *Spec) { s.Dir = "tmp" },
		"NUL":              func(s *Spec) { s.Env = []string{"A=\x00"} },
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := r.Start(t.Context(), shell("true", change)); err == nil {
				t.Error("Start accepted it")
			}
		})
	}
	p := start(t, r, shell("exec sleep 60"))
	if _, err := r.Start(t.Context(), p.Spec()); !errors.Is(err, os.ErrExist) {
		t.Errorf("a second Start = %v, want that it exists", err)
	}
	if err := p.Remove(); err == nil {
		t.Error("Remove of a running container was not refused")
	}
}

func TestStopEndsTheWholeTree(t *testing.T) {
	eachTier(t, func(t *testing.T, tier func(*Spec)) {
		r := newRuntime(t)
		mark := "mark-" + rand.Text()
		// Each child ignores SIGTERM and has left its session or its parent.
		p := start(t, r, shell(`
			trap '' TERM
			python3 -c 'import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)' `+mark+` &
			setsid python3 -c 'import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)' `+mark+` &
			(setsid env -i sh -c 'trap "" TERM; sleep 600 & exec sleep 601; #`+mark+`' &) 
			(python3 -c 'import os,time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
time.sleep(600)' `+mark+`)
			echo ready
			while true; do sleep 600; done # `+mark, tier))
		eventually(t, "the tree is there", func() bool {
			return strings.Contains(output(t, p), "ready") && alive(mark) >= 4
		})
		began := time.Now()
		if err := p.Stop(t.Context(), 100*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 100*time.Millisecond || took > 2*time.Second {
			t.Errorf("Stop took %v, want the grace of 100ms and little more", took)
		}
		if n := alive(mark); n != 0 {
			t.Errorf("%d processes are left at Done", n)
		}
		if pids := p.PIDs(); len(pids) != 0 {
			t.Errorf("PIDs = %v after the end", pids)
		}
		if exit := p.Exit(); exit.Signal != int(syscall.SIGKILL) || exit.CPUSeconds == 0 {
			t.Errorf("exit = %+v, want killed, with CPU time", exit)
		}
		if err := p.Stop(t.Context(), time.Hour); err != nil {
			t.Errorf("a second Stop: %v", err)
		}
	})
}

func TestMainEndTakesTheRestAlong(t *testing.T) {
	eachTier(t, func(t *testing.T, tier func(*Spec)) {
		mark := "mark-" + rand.Text()
		p := start(t, newRuntime(t), shell("setsid sh -c 'sleep 600; : "+mark+"' & sleep 0.05; exit 3", tier))
		if exit := wait(t, p); exit.Code != 3 {
			t.Errorf("exit = %+v, want code 3", exit)
		}
		if n := alive(mark); n != 0 {
			t.Errorf("%d processes are left at Done", n)
		}
	})
}

func TestPythonObeysSIGTERM(t *testing.T) {
	eachTier(t, func(t *testing.T, tier func(*Spec)) {
		p := start(t, newRuntime(t), shell("", tier, func(s *Spec) {
			s.Argv = []string{"python3", "-u", "-c", "import time; print('up'); time.sleep(600)"}
		}))
		follow(t, p, "up\n")
		began := time.Now()
		if err := p.Stop(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("Stop took %v", took)
		}
		if exit := p.Exit(); exit.Code != 143 || exit.Signal != 15 {
			t.Errorf("exit = %+v, want signal 15", exit)
		}
	})
}

func TestSignalAndStopDeadline(t *testing.T) {
	r := newRuntime(t)
	p := start(t, r, shell("trap 'echo usr1' USR1; trap 'echo term' TERM; echo up; while true; do sleep 0.01; done"))
	follow(t, p, "up\n")
	if err := p.Signal(t.Context(), syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	follow(t, p, "up\nusr1\n")
	// A later deadline changes nothing, an earlier one does.
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := p.Stop(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Stop = %v, want that ctx ended", err)
	}
	began := time.Now()
	if err := p.Stop(t.Context(), 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("Stop took %v", took)
	}
	if got := output(t, p); strings.Count(got, "term") != 1 {
		t.Errorf("output = %q, want one SIGTERM", got)
	}
	if err := p.Signal(t.Context(), syscall.SIGUSR1); !errors.Is(err, ErrEnded) {
		t.Errorf("Signal after the end = %v, want ErrEnded", err)
	}
}

func TestStartCancelled(t *testing.T) {
	r := newRuntime(t)
	lock := filepath.Join(t.TempDir(), "lock")
	held := start(t, r, shell("exec sleep 600", func(s *Spec) { s.Locks = []string{lock} }))
	// The second start waits for the lock when its context ends.
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	s := shell("exec sleep 600", func(s *Spec) { s.Locks = []string{lock} })
	if _, err := r.Start(ctx, s); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Start = %v, want that ctx ended", err)
	}
	if _, err := os.Stat(r.folder(s)); !os.IsNotExist(err) {
		t.Errorf("the folder is still there: %v", err)
	}
	if err := held.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestLocks(t *testing.T) {
	eachTier(t, func(t *testing.T, tier func(*Spec)) {
		lock := filepath.Join(t.TempDir(), "gpu-0")
		locked := func(s *Spec) { s.Locks = []string{lock} }
		first, second := newRuntime(t), newRuntime(t)
		p := start(t, first, shell("setsid sleep 600 & exec sleep 600", tier, locked))
		_, err := second.Start(t.Context(), shell("true", tier, locked))
		var refused *StartError
		if !errors.As(err, &refused) || refused.Reason != ReasonLockHeld || !strings.Contains(refused.Message, p.Spec().ID) {
			t.Fatalf("Start = %v, want that the lock is held by %s", err, p.Spec().ID)
		}
		// Given back the moment that the end is known.
		if err := p.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		next := start(t, second, shell("true", tier, locked))
		if took := time.Since(began); took > 500*time.Millisecond {
			t.Errorf("taking the lock over took %v", took)
		}
		wait(t, next)
	})
}

// TestSharedLocks: containers of one group hold a lock together, until the last
// has ended; another group, and who wants it alone, get it after that.
func TestSharedLocks(t *testing.T) {
	lock := filepath.Join(t.TempDir(), "gpu-0")
	alone := func(s *Spec) { s.Locks = []string{lock} }
	of := func(group string) func(*Spec) {
		return func(s *Spec) { s.SharedLocks, s.LockGroup = []string{lock}, group }
	}
	r := newRuntime(t)
	refused := func(what string, edit func(*Spec)) {
		t.Helper()
		_, err := r.Start(t.Context(), shell("true", edit))
		var no *StartError
		if !errors.As(err, &no) || no.Reason != ReasonLockHeld {
			t.Errorf("%s: Start = %v, want that the lock is held", what, err)
		}
	}
	one := start(t, r, shell("exec sleep 600", of("a")))
	two := start(t, r, shell("exec sleep 600", of("a")))
	refused("another group", of("b"))
	refused("alone", alone)
	if err := one.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	refused("another group, one having ended", of("b"))
	refused("alone, one having ended", alone)
	if err := two.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	other := start(t, r, shell("exec sleep 600", of("b")))
	refused("the first group", of("a"))
	if err := other.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	last := start(t, r, shell("exec sleep 600", alone))
	refused("a group beside who has it alone", of("a"))
	if err := last.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestTerminationMessageAndEnvironment(t *testing.T) {
	eachTier(t, func(t *testing.T, tier func(*Spec)) {
		file := filepath.Join(t.TempDir(), "message")
		p := start(t, newRuntime(t), shell(`echo "$GREETING $PWD $MUSTER_CONTAINER_ID"; head -c 5000 /dev/zero | tr '\0' x > `+file+`; printf end >> `+file, tier, func(s *Spec) {
			s.Env = append(s.Env, "GREETING=hello")
			s.Dir = "/usr"
			s.TerminationMessagePath = file
		}))
		exit := wait(t, p)
		if len(exit.Message) != 4096 || !strings.HasSuffix(exit.Message, "xend") {
			t.Errorf("message has %d bytes, want the last 4096", len(exit.Message))
		}
		if got, want := output(t, p), "hello /usr "+p.Spec().ID+"\n"; got != want {
			t.Errorf("output = %q, want %q", got, want)
		}
	})
}

// TestTerminationMessageOfOthers: a program puts the file of another user in the place of its
// termination message, and the shim does not read it.
func TestTerminationMessageOfOthers(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"a file":             {`mkdir sub; printf said > sub/message`, "said"},
		"a link":             {`mkdir sub; ln -s "$OTHERS/message" sub/message`, ""},
		"a link to a folder": {`ln -s "$OTHERS" sub`, ""},
		"a link within":      {`mkdir a; printf said > a/message; ln -s a sub`, ""},
		"another name":       {`mkdir sub; ln "$OTHERS/message" sub/message`, ""},
		"a pipe":             {`mkdir sub; mkfifo sub/message`, ""},
		"a folder":           {`mkdir -p sub/message`, ""},
		"nothing":            {`true`, ""},
		"through the root":   {`mkdir sub; ln -s /proc/self/root"$OTHERS/message" sub/message`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir() // one file system for both
			root, others := filepath.Join(parent, "root"), filepath.Join(parent, "others")
			if err := errors.Join(os.Mkdir(root, 0o755), os.Mkdir(others, 0o755), os.WriteFile(filepath.Join(others, "message"), []byte("secret"), 0o600)); err != nil {
				t.Fatal(err)
			}
			exit := wait(t, start(t, newRuntime(t), shell(c.script, func(s *Spec) {
				s.Env, s.Dir = append(s.Env, "OTHERS="+others), root
				s.TerminationMessageRoot, s.TerminationMessagePath = root, filepath.Join(root, "sub/message")
			})))
			if exit.Code != 0 || exit.Message != c.want {
				t.Errorf("exit = %+v, want the message %q", exit, c.want)
			}
		})
	}
}

// TestTerminationMessageOfAnotherTree: a program moves the folder in which its termination message is
// mounted, and puts a link in its place.
func TestTerminationMessageOfAnotherTree(t *testing.T) {
	needRoot(t)
	host := t.TempDir()
	volume, file, secret := filepath.Join(host, "volume"), filepath.Join(host, "message"), filepath.Join(host, "secret")
	if err := errors.Join(os.Mkdir(volume, 0o777), os.WriteFile(file, nil, 0o600), os.WriteFile(secret, []byte("secret"), 0o600)); err != nil {
		t.Fatal(err)
	}
	script := `set -e; printf said > /muster-test/sub/message; mv /muster-test/sub /muster-test/moved; mkdir /muster-test/sub; ln -s ` + secret + ` /muster-test/sub/message`
	exit := wait(t, start(t, newRuntime(t), shell(script, func(s *Spec) {
		s.TerminationMessageFile, s.TerminationMessagePath = file, "/muster-test/sub/message"
		s.Isolation = &Isolation{Mounts: []Mount{{Source: volume, Target: "/muster-test"}, {Source: file, Target: "/muster-test/sub/message"}}}
	})))
	if exit.Code != 0 || exit.Message != "said" {
		t.Errorf("exit = %+v, want the message that was written to the file", exit)
	}
}

func TestUser(t *testing.T) {
	needRoot(t)
	eachTier(t, func(t *testing.T, tier func(*Spec)) {
		uid, gid := uint32(65534), uint32(1234)
		p := start(t, newRuntime(t), shell("id -u; id -g; id -G", tier, func(s *Spec) {
			s.UID, s.GID, s.Groups = &uid, &gid, []uint32{4321}
		}))
		if exit := wait(t, p); exit.Code != 0 {
			t.Fatalf("exit = %+v", exit)
		}
		if got := output(t, p); got != "65534\n1234\n1234 4321\n" {
			t.Errorf("output = %q", got)
		}
	})
}

func TestUsage(t *testing.T) {
	eachTier(t, func(t *testing.T, tier func(*Spec)) {
		p := start(t, newRuntime(t), shell("(while true; do :; done) & while true; do :; done", tier))
		eventually(t, "CPU time is seen", func() bool {
			u, err := p.Usage()
			return err == nil && u.CPUSeconds > 0.05 && u.RSSBytes > 0 && u.Processes == 2
		})
		if pids := p.PIDs(); len(pids) != 2 || pids[0] != p.PID() {
			t.Errorf("PIDs = %v, want two, the first %d", pids, p.PID())
		}
		if err := p.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		if exit := p.Exit(); exit.CPUSeconds < 0.05 || exit.MaxRSSBytes == 0 {
			t.Errorf("exit = %+v, want CPU time and memory", exit)
		}
		eventually(t, "the shim is gone", func() bool {
			_, err := p.Usage()
			return errors.Is(err, ErrEnded)
		})
	})
}

func TestManyAtOnce(t *testing.T) {
	r := newRuntime(t)
	const many = 200
	began := time.Now()
	started := make(chan *Process, many)
	for range many {
		go func() {
			p, err := r.Start(context.Background(), shell("exec sleep 600"))
			if err != nil {
				t.Errorf("Start: %v", err)
			}
			started <- p
		}()
	}
	var all []*Process
	for range many {
		if p := <-started; p != nil {
			all = append(all, p)
		}
	}
	t.Logf("%d containers started in %v", many, time.Since(began))
	var rss int64
	for _, p := range all {
		rss += shimRSS(t, p)
	}
	if each := rss / int64(len(all)); each > 6<<20 {
		t.Errorf("a shim takes %d bytes", each)
	} else {
		t.Logf("a shim takes %d KiB", each>>10)
	}
	began = time.Now()
	for _, p := range all {
		go func() { _ = p.Kill(context.Background()) }()
	}
	for _, p := range all {
		wait(t, p)
	}
	t.Logf("%d containers ended in %v", many, time.Since(began))
}

func shimRSS(t testing.TB, p *Process) int64 {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.identity.PID))
	if err != nil {
		t.Error(err)
		return 0
	}
	pages, _ := strconv.ParseInt(strings.Fields(string(data))[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

func BenchmarkStart(b *testing.B) {
	for name, tier := range tiers {
		b.Run(name, func(b *testing.B) {
			if name == "isolated" {
				needRoot(b)
			}
			r := newRuntime(b)
			for b.Loop() {
				p := start(b, r, shell("exec sleep 600", tier))
				b.StopTimer()
				if err := p.Kill(b.Context()); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}

// BenchmarkExitToDone measures from a process's end to Done.
func BenchmarkExitToDone(b *testing.B) {
	for name, tier := range tiers {
		b.Run(name, func(b *testing.B) {
			if name == "isolated" {
				needRoot(b)
			}
			r := newRuntime(b)
			for b.Loop() {
				b.StopTimer()
				p := start(b, r, shell("exec sleep 600", tier))
				b.StartTimer()
				if err := unix.Kill(p.PID(), unix.SIGKILL); err != nil {
					b.Fatal(err)
				}
				<-p.Done()
			}
		})
	}
}
