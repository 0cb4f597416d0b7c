package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// The users of the tests have no entry in /etc/passwd.
const (
	ada   = 61001
	grace = 61002
)

// asUser makes a container that of a user of the machine, in the group of the same number.
func asUser(uid uint32, groups ...uint32) func(*Spec) {
	return func(s *Spec) {
		s.UID, s.GID, s.Groups = &uid, &uid, groups
		s.Owner = &Owner{Umask: 0o077, Processes: 1000}
		s.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/"}
	}
}

// openFolder is a folder that every user can enter.
func openFolder(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for at := dir; len(at) > len(os.TempDir()); at = filepath.Dir(at) {
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestUserOfAContainer: a program has the numbers of its user and nothing of root: in its main
// process and in commands that are executed beside it.
func TestUserOfAContainer(t *testing.T) {
	needRoot(t)
	var many []uint32
	for i := range uint32(70) {
		many = append(many, 62000+i)
	}
	const script = `umask; ulimit -c; ls /proc/self/fd | tr '\n' ' '; echo
grep -E '^(Uid|Gid|Groups|Cap...|NoNewPrivs):' /proc/self/status | tr -s '\t ' ' ' | sed 's/ $//'
(: > /dev/stdout) && (: > /dev/stderr) && echo opened`
	var groups []string
	for _, g := range many {
		groups = append(groups, strconv.Itoa(int(g)))
	}
	none := strings.Repeat("0", 16)
	want := fmt.Sprintf("0077\n0\n0 1 2 3 \nUid: %[1]d %[1]d %[1]d %[1]d\nGid: %[1]d %[1]d %[1]d %[1]d\nGroups: %[2]s\n", ada, strings.Join(groups, " "))
	for _, set := range []string{"Inh", "Prm", "Eff", "Bnd", "Amb"} {
		want += "Cap" + set + ": " + none + "\n"
	}
	want += "NoNewPrivs: 1\nopened\n"
	eachTier(t, func(t *testing.T, tier func(*Spec)) {
		r := newRuntime(t)
		p := start(t, r, shell(script+"; true", tier, asUser(ada, many...)))
		wait(t, p)
		if diff := cmp.Diff(want, output(t, p)); diff != "" {
			t.Errorf("main process (-want +got):\n%s", diff)
		}
		beside := start(t, r, shell("exec sleep 600", tier, asUser(ada, many...)))
		var out strings.Builder
		if code, err := beside.Exec(t.Context(), ExecOptions{Argv: []string{"/bin/sh", "-c", script + " 2>&1; true"}, Stdout: &out, Stderr: &out}); err != nil || code != 0 {
			t.Fatalf("Exec = %d, %v", code, err)
		}
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("exec (-want +got):\n%s", diff)
		}
	})
}

// TestSessionKeyring: a program does not have the session keyring of whoever started Muster.
func TestSessionKeyring(t *testing.T) {
	needRoot(t)
	read := func(text string) string {
		for line := range strings.Lines(text) {
			if strings.Contains(line, " keyring ") && strings.Contains(line, "_ses") {
				return line
			}
		}
		return ""
	}
	if _, err := os.Stat("/proc/keys"); err != nil {
		t.Skip("needs keyrings in the kernel: ", err)
	}
	own, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, true)
	if err != nil {
		t.Fatal(err)
	}
	eachTier(t, func(t *testing.T, tier func(*Spec)) {
		p := start(t, newRuntime(t), shell("cat /proc/keys", tier, asUser(ada)))
		wait(t, p)
		keys := output(t, p)
		if read(keys) == "" {
			t.Errorf("the program has no session keyring: %q", keys)
		}
		if strings.Contains(keys, fmt.Sprintf("%08x", own)) {
			t.Errorf("the program sees the test's keyring %08x: %s", own, keys)
		}
	})
}

// TestFaultsOfAUser: the working directory and the program are those that the user may use, and the
// reason why not is one sentence.
func TestFaultsOfAUser(t *testing.T) {
	needRoot(t)
	dir := openFolder(t)
	closed, file := filepath.Join(dir, "closed"), filepath.Join(dir, "file")
	mine, denied := filepath.Join(dir, "mine"), filepath.Join(dir, "denied")
	late := filepath.Join(dir, "late")
	for _, folder := range []string{closed, mine, denied, late} {
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write := func(path, text string, mode os.FileMode) {
		t.Helper()
		if err := errors.Join(os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
	}
	write(file, "", 0o644)
	write(filepath.Join(closed, "program"), "#!/bin/sh\n", 0o755)
	write(filepath.Join(denied, "program"), "#!/bin/sh\n", 0o700)
	write(filepath.Join(late, "program"), "#!/bin/sh\necho late\n", 0o755)
	write(filepath.Join(dir, "script"), "#!/nowhere/sh\n", 0o755)
	if err := errors.Join(os.Chmod(closed, 0o700), os.Chmod(mine, 0o700), os.Chown(mine, ada, ada)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, dir string
		argv      []string
		path      string
		reason    Reason
		code      int
		message   string
	}{
		{"a folder of root", closed, []string{"true"}, "", ReasonDirectory, 128, "the working directory " + closed + " cannot be entered by user 61001: permission denied"},
		{"no folder", file, []string{"true"}, "", ReasonDirectory, 128, "the working directory " + file + " is no directory"},
		{"a folder that is not there", dir + "/none", []string{"true"}, "", ReasonDirectory, 128, "the working directory " + dir + "/none does not exist"},
		{"a program of root", mine, []string{denied + "/program"}, "", ReasonNotExecutable, 126, denied + "/program cannot be executed in " + mine + ": permission denied"},
		{"a program in a folder of root", mine, []string{closed + "/program"}, "", ReasonNotExecutable, 126, "permission denied"},
		{"a program of root in PATH", mine, []string{"program"}, closed + ":" + denied, ReasonNotExecutable, 126, denied + "/program cannot be executed"},
		{"no program in PATH", mine, []string{"program"}, closed, ReasonNotFound, 127, `command not found: "program" is in none of the folders of PATH`},
		{"no interpreter", mine, []string{dir + "/script"}, "", ReasonNotFound, 127, "its interpreter does not exist (#!/nowhere/sh)"},
		{"a program further on in PATH", mine, []string{"program"}, denied + ":" + late, "", 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRuntime(t)
			change := func(s *Spec) {
				s.Dir, s.Argv = c.dir, c.argv
				s.Env = append(s.Env, "PATH="+strings.TrimPrefix(c.path+":/usr/bin:/bin", ":"))
			}
			p, err := r.Start(t.Context(), shell("", asUser(ada), change))
			if c.reason == "" {
				if err != nil {
					t.Fatal(err)
				}
				wait(t, p)
				return
			}
			var refused *StartError
			if !errors.As(err, &refused) || refused.Reason != c.reason || refused.Code != c.code || !strings.Contains(refused.Message, c.message) {
				t.Errorf("Start: %+v, %v; want %s, %d, %q", refused, err, c.reason, c.code, c.message)
			}
			beside := start(t, r, shell("exec sleep 600", asUser(ada)))
			_, err = beside.Exec(t.Context(), ExecOptions{Argv: c.argv, Dir: c.dir, Env: []string{"PATH=" + strings.TrimPrefix(c.path+":/usr/bin:/bin", ":")}})
			if !errors.As(err, &refused) || refused.Reason != c.reason || refused.Code != c.code || !strings.Contains(refused.Message, c.message) {
				t.Errorf("Exec: %+v, %v; want %s, %d, %q", refused, err, c.reason, c.code, c.message)
			}
		})
	}
}

// TestSpareHome: a home that is no folder of this machine gives way to the spare one; a home that the
// user may not enter stays.
func TestSpareHome(t *testing.T) {
	needRoot(t)
	dir := openFolder(t)
	closed := filepath.Join(dir, "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	for home, want := range map[string]string{dir: dir, closed: closed, dir + "/none": "/spare", "/bin/sh": "/spare", "/bin/sh/home": "/spare"} {
		p := start(t, newRuntime(t), shell(`echo "$HOME"`, asUser(ada), func(s *Spec) {
			s.Owner.SpareHome, s.Env = "/spare", []string{"PATH=/usr/bin:/bin", "HOME=" + home}
		}))
		wait(t, p)
		if got := strings.TrimSpace(output(t, p)); got != want {
			t.Errorf("HOME=%s became %q, want %q", home, got, want)
		}
	}
}

// TestOthersSeeNothing: another user can neither trace a program, nor read its environment, memory
// and files, nor signal it. Its owner can.
func TestOthersSeeNothing(t *testing.T) {
	needRoot(t)
	eachTier(t, func(t *testing.T, tier func(*Spec)) {
		p := start(t, newRuntime(t), shell("echo up; exec sleep 600", tier, asUser(ada), func(s *Spec) { s.Env = append(s.Env, "SECRET=x") }))
		follow(t, p, "up\n")
		proc := filepath.Join("/proc", strconv.Itoa(p.PID()))
		const script = `import ctypes, os, sys
libc, pid = ctypes.CDLL(None, use_errno=True), int(sys.argv[1])
def try_(name, f):
    try:
        f(); print(name)
    except OSError: pass
def check(r):
    if r < 0: raise OSError(ctypes.get_errno(), "")
for name in "environ", "mem", "maps", "fd": try_(name, lambda: os.listdir(sys.argv[2] + "/fd") if name == "fd" else open(sys.argv[2] + "/" + name, "rb").read(1) if name != "mem" else open(sys.argv[2] + "/mem", "rb"))
try_("root", lambda: os.readlink(sys.argv[2] + "/cwd"))
try_("signal", lambda: os.kill(pid, 0))
try_("trace", lambda: (check(libc.ptrace(0x4206, pid, 0, 0)), libc.ptrace(17, pid, 0, 0)))
`
		try := func(uid uint32) string {
			c := exec.Command("/usr/bin/python3", "-c", script, strconv.Itoa(p.PID()), proc)
			c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
			c.Dir = "/"
			out, err := c.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			return strings.Join(strings.Fields(string(out)), " ")
		}
		if got := try(grace); got != "" {
			t.Errorf("another user can use: %s", got)
		}
		if got := try(ada); !strings.Contains(got, "environ") || !strings.Contains(got, "signal") {
			t.Errorf("the owner can use only: %s", got)
		}
	})
}

// TestEndOfTheShimEndsTheUser: the tree of another user ends with its shim.
func TestEndOfTheShimEndsTheUser(t *testing.T) {
	needRoot(t)
	p := start(t, newRuntime(t), shell("echo up; exec sleep 600", asUser(ada)))
	follow(t, p, "up\n")
	if err := unix.Kill(p.identity.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the program ends with its shim", func() bool { return unix.Kill(p.PID(), 0) != nil })
	wait(t, p)
}

// TestLimitOfAUser: a fork bomb of one user meets the limit of this user, in all containers together,
// and no other user does.
func TestLimitOfAUser(t *testing.T) {
	needRoot(t)
	const most = 40
	bomb := []string{"/usr/bin/python3", "-c", `import os, signal
try:
    for i in range(100):
        if os.fork() == 0: signal.pause()
except BlockingIOError as e: print(e.strerror, flush=True)
signal.pause()`}
	for name, change := range map[string]func(*Runtime){
		"control group": nil,
		"RLIMIT_NPROC":  func(r *Runtime) { r.hierarchies = hierarchies{} },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRuntime(t)
			if change != nil {
				change(r)
			} else if !r.hierarchies.boundsUsers() {
				t.Skip("needs a control group that counts processes")
			}
			bounded := func(s *Spec) { s.Owner.Processes = most }
			forks := func(s *Spec) { s.Argv = bomb }
			first := start(t, r, shell("", asUser(ada), bounded, forks))
			follow(t, first, "Resource temporarily unavailable\n")
			if n := processesOfUser(ada); n > most || n < most-4 {
				t.Errorf("user %d has %d processes, want up to %d", ada, n, most)
			}
			// No container of the user starts now, with a sentence. RLIMIT_NPROC is for those that
			// are there before a process becomes the user, so one more may be.
			var err error
			for range 2 {
				if _, err = r.Start(t.Context(), shell("", asUser(ada), bounded, forks)); err != nil {
					break
				}
			}
			if n := processesOfUser(ada); n > most+1 {
				t.Errorf("user %d has %d processes, want at most %d", ada, n, most+1)
			}
			var refused *StartError
			if !errors.As(err, &refused) || refused.Code == 0 || !strings.Contains(refused.Message, "process") {
				t.Errorf("the user's second container: %+v, %v", refused, err)
			}
			other := start(t, r, shell("sleep 0 & wait; echo fine", asUser(grace), bounded))
			if exit := wait(t, other); exit.Code != 0 || output(t, other) != "fine\n" {
				t.Errorf("another user: %+v, %q", exit, output(t, other))
			}
			if err := errors.Join(first.Kill(context.Background()), first.Remove()); err != nil {
				t.Error(err)
			}
		})
	}
}

// processesOfUser counts processes, which have one thread each.
func processesOfUser(uid int) (n int) {
	files, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			continue
		}
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			if fields := strings.Fields(lines.Text()); len(fields) > 1 && fields[0] == "Uid:" && fields[1] == strconv.Itoa(uid) {
				n++
			}
		}
		_ = f.Close()
	}
	return n
}

// TestNoOwnerIsRefused: a runtime of a shared machine starts nothing without its user.
func TestNoOwnerIsRefused(t *testing.T) {
	r := newRuntime(t)
	r.shared = true
	for name, change := range map[string]func(*Spec){
		"no owner":              func(*Spec) {},
		"no user":               func(s *Spec) { asUser(ada)(s); s.UID = nil },
		"no group":              func(s *Spec) { asUser(ada)(s); s.GID = nil },
		"the user of an image":  func(s *Spec) { asUser(ada)(s); s.Account = "root" },
		"numbers without owner": func(s *Spec) { asUser(ada)(s); s.Owner = nil },
	} {
		if p, err := r.Start(t.Context(), shell("true", change)); err == nil {
			wait(t, p)
			t.Errorf("%s: the container was started", name)
		}
	}
}

// TestGroupsOfAUser: the groups of a user's containers lie in one group of the user, which has the limit,
// and which goes with the last of them. The groups of root and of a Muster of one user stay where they are.
func TestGroupsOfAUser(t *testing.T) {
	h := hierarchies{unified: t.TempDir(), controllers: []string{"cpu", "memory", "pids"}, legacy: map[string]string{}}
	spec := func(id string, change func(*Spec)) Spec {
		s := Spec{ID: id, Limits: &Limits{CPURequestMillis: 1000}}
		change(&s)
		return s
	}
	place := func(s Spec) string {
		groups, err := makeGroups(h, s)
		if err != nil || len(groups) != 1 {
			t.Fatalf("makeGroups: %v, %v", groups, err)
		}
		at, err := filepath.Rel(h.unified, groups[0].Path)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	for name, c := range map[string]struct {
		spec Spec
		want string
	}{
		"a user":             {spec("pod/a/0", asUser(ada)), "muster/users/61001/pod_a_0"},
		"the user again":     {spec("pod/b/0", asUser(ada)), "muster/users/61001/pod_b_0"},
		"root":               {spec("pod/c/0", asUser(0)), "muster/pod_c_0"},
		"a Muster of one":    {spec("pod/d/0", func(*Spec) {}), "muster/pod_d_0"},
		"a user, without":    {spec("pod/e/0", func(s *Spec) { asUser(ada)(s); s.Owner.Processes = 0 }), "muster/pod_e_0"},
		"another, no limits": {spec("pod/f/0", func(s *Spec) { asUser(grace)(s); s.Limits = nil }), "muster/users/61002/pod_f_0"},
	} {
		if got := place(c.spec); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	if got, err := os.ReadFile(filepath.Join(h.unified, "muster/users/61001/pids.max")); err != nil || string(got) != "1000" {
		t.Errorf("the limit is %q, %v", got, err)
	}
	if h.processLimit(spec("pod/a/0", asUser(ada))) != 0 || (hierarchies{}).processLimit(spec("pod/a/0", asUser(ada))) != 1000 {
		t.Error("RLIMIT_NPROC is not for machines without the control group alone")
	}
}

// TestWeightOfAUser: the group of a user has the weight of all of the user's containers.
func TestWeightOfAUser(t *testing.T) {
	group := t.TempDir()
	for name, weight := range map[string]string{"a": "39\n", "b": "100\n"} {
		if err := errors.Join(os.Mkdir(filepath.Join(group, name), 0o755), os.WriteFile(filepath.Join(group, name, "cpu.weight"), []byte(weight), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(group, "cpu.weight"), []byte("100"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := weigh(group); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(group, "cpu.weight")); err != nil || string(got) != "139" {
		t.Errorf("cpu.weight is %q, %v", got, err)
	}
	if slices.Contains([]int64{0, 1}, UserProcesses()) {
		t.Errorf("the default limit of processes is %d", UserProcesses())
	}
}

// BenchmarkStartAsUser is a start with the numbers of Muster's own user, and one as another user.
func BenchmarkStartAsUser(b *testing.B) {
	needRoot(b)
	for name, user := range map[string]func(*Spec){"own": nil, "as another user": asUser(ada)} {
		b.Run(name, func(b *testing.B) {
			r := newRuntime(b)
			var took time.Duration
			for b.Loop() {
				at := time.Now()
				p, err := r.Start(b.Context(), shell("true", user, func(s *Spec) { s.Argv = []string{"/bin/true"} }))
				took += time.Since(at)
				if err != nil {
					b.Fatal(err)
				}
				<-p.Done()
				if err := p.Remove(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(took.Microseconds())/float64(b.N)/1000, "ms/start")
		})
	}
}
