package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// inside runs a script in an isolated container and returns its output.
func inside(t *testing.T, r *Runtime, iso Isolation, script string, options ...func(*Spec)) string {
	t.Helper()
	p := start(t, r, shell(script, append(options, func(s *Spec) { s.Isolation = &iso })...))
	exit := wait(t, p)
	got := output(t, p)
	if exit.Code != 0 || exit.Err != "" {
		t.Fatalf("exit = %+v, output %q", exit, got)
	}
	return got
}

func TestMounts(t *testing.T) {
	needRoot(t)
	r := newRuntime(t)
	host := t.TempDir()
	for name, text := range map[string]string{"volume/file": "volume", "config/key": "value", "hosts": "127.0.0.1 me\n", "deep/keep": "kept"} {
		path := filepath.Join(host, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	volume, config, hosts, deep := filepath.Join(host, "volume"), filepath.Join(host, "config"), filepath.Join(host, "hosts"), filepath.Join(host, "deep")
	for _, c := range []struct {
		name   string
		mounts []Mount
		script string
		want   string
	}{
		{"top level", []Mount{{Source: volume, Target: "/muster-test"}},
			"cat /muster-test/file; echo new > /muster-test/new", "volume"},
		{"top level, deeper", []Mount{{Source: volume, Target: "/muster-test/a/b"}},
			"cat /muster-test/a/b/file", "volume"},
		{"deeper, missing", []Mount{{Source: volume, Target: "/usr/share/muster-test/a"}},
			"cat /usr/share/muster-test/a/file; ls /usr/share | wc -l | grep -qv '^[01]$' && echo; test -e /usr/bin/env && echo usr", "volume\nusr\n"},
		{"in a folder of the host", []Mount{{Source: volume, Target: deep + "/missing"}},
			"cat " + deep + "/missing/file " + deep + "/keep; touch " + deep + "/mine", "volumekept"},
		{"read-only", []Mount{{Source: config, Target: "/config", ReadOnly: true}},
			"cat /config/key; touch /config/x 2>/dev/null || echo ' refused'", "value refused\n"},
		{"file over file", []Mount{{Source: hosts, Target: "/etc/hosts"}},
			"cat /etc/hosts", "127.0.0.1 me\n"},
		{"file, missing", []Mount{{Source: hosts, Target: "/etc/muster-test/hosts", ReadOnly: true}},
			"cat /etc/muster-test/hosts; test -e /etc/passwd && echo passwd", "127.0.0.1 me\npasswd\n"},
		{"tmpfs", []Mount{{Target: "/scratch", Tmpfs: true, SizeBytes: 1 << 20}},
			"stat -f -c %T /scratch; head -c 2000000 /dev/zero > /scratch/x 2>/dev/null || echo full", "tmpfs\nfull\n"},
		{"shared memory", []Mount{{Target: "/dev/shm", Tmpfs: true, SizeBytes: 1 << 20}},
			"df --output=size /dev/shm | tail -1 | tr -d ' '", "1024\n"},
		{"one in another", []Mount{{Source: config, Target: "/outer/inner/config", ReadOnly: true}, {Source: volume, Target: "/outer"}},
			"cat /outer/file /outer/inner/config/key; touch /outer/inner/config/x 2>/dev/null || echo ' refused'", "volumevalue refused\n"},
		{"in a read-only one", []Mount{{Source: config, Target: "/ro", ReadOnly: true}, {Source: volume, Target: "/ro/sub"}},
			"cat /ro/key /ro/sub/file; touch /ro/x 2>/dev/null || echo ' refused'; touch /ro/sub/x && echo written", "valuevolume refused\nwritten\n"},
		{"below /run", []Mount{{Source: config, Target: "/var/run/secrets/muster-test", ReadOnly: true}},
			"cat /run/secrets/muster-test/key", "value"},
		{"same path", []Mount{{Source: volume, Target: volume, ReadOnly: true}},
			"touch " + volume + "/x 2>/dev/null || echo refused", "refused\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := inside(t, r, Isolation{Mounts: c.mounts}, c.script); got != c.want {
				t.Errorf("output = %q, want %q", got, c.want)
			}
		})
	}
	t.Run("the host is as it was", func(t *testing.T) {
		for _, path := range []string{"/muster-test", "/usr/share/muster-test", "/config", "/etc/muster-test", "/scratch", "/outer", "/run/secrets/muster-test", deep + "/missing", deep + "/mine", config + "/x", config + "/sub", volume + "/inner/config/x"} {
			if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s exists (%v)", path, err)
			}
		}
		if text, _ := os.ReadFile(filepath.Join(volume, "new")); string(text) != "new\n" {
			t.Errorf("what was written into the volume is %q", text)
		}
		table, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil || strings.Contains(string(table), r.root) {
			t.Errorf("mounts of containers are seen on the host (%v)", err)
		}
	})
	for name, m := range map[string]Mount{
		"no source":        {Source: host + "/none", Target: "/x"},
		"the root":         {Source: volume, Target: "/"},
		"relative":         {Source: volume, Target: "x"},
		"folder over file": {Source: volume, Target: "/etc/hosts"},
		"file over folder": {Source: hosts, Target: "/etc"},
		"below a file":     {Source: volume, Target: "/etc/hosts/x"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := r.Start(t.Context(), shell("true", func(s *Spec) { s.Isolation = &Isolation{Mounts: []Mount{m}} }))
			var refused *StartError
			if !errors.As(err, &refused) || refused.Reason != ReasonIsolation {
				t.Errorf("Start = %v, want that it cannot be mounted", err)
			}
		})
	}
}

// TestSubPaths: a program that shares a volume swaps a folder of it for a link to a folder outside. No
// container sees that folder, and read-only mounts stay read-only.
func TestSubPaths(t *testing.T) {
	needRoot(t)
	r := newRuntime(t)
	host := t.TempDir()
	for _, name := range []string{"outside/secret", "volume/sub/file", "volume/file"} {
		path := filepath.Join(host, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	volume, sub, link := filepath.Join(host, "volume"), filepath.Join(host, "volume/sub"), filepath.Join(host, "volume/link")
	if err := os.Symlink(filepath.Join(host, "outside"), link); err != nil {
		t.Fatal(err)
	}
	script := `cat /data/*; touch /data/x 2>/dev/null && echo written`
	mounts := func(sub string) []Mount {
		return []Mount{{Source: volume, SubPath: sub, Target: "/data", ReadOnly: true}}
	}
	if got := inside(t, r, Isolation{Mounts: mounts("sub")}, script+"; true"); got != "volume/sub/file" {
		t.Errorf("it sees %q", got)
	}
	if got := inside(t, r, Isolation{Mounts: []Mount{{Source: volume, SubPath: "file", Target: "/etc/hosts"}}}, "cat /etc/hosts"); got != "volume/file" {
		t.Errorf("it sees %q", got)
	}
	if _, err := r.Start(t.Context(), shell("true", func(s *Spec) { s.Isolation = &Isolation{Mounts: mounts("link")} })); err == nil {
		t.Error("a link was followed")
	}
	over := make(chan struct{})
	var swaps sync.WaitGroup
	swaps.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, sub, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE)
			}
		}
	})
	defer swaps.Wait()
	defer close(over)
	refused := 0
	for range 20 {
		p, err := r.Start(t.Context(), shell(script+"; true", func(s *Spec) { s.Isolation = &Isolation{Mounts: mounts("sub")} }))
		if err != nil {
			refused++
			continue
		}
		wait(t, p)
		if got := output(t, p); got != "volume/sub/file" {
			t.Errorf("it sees %q", got)
		}
		if err := p.Remove(); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d of 20 containers were refused", refused)
}

func TestNamespaces(t *testing.T) {
	needRoot(t)
	r := newRuntime(t)
	home := t.TempDir()
	got := inside(t, r, Isolation{Hostname: "worker-0"}, `
		hostname
		ls /proc | grep -c '^[0-9]' | sed 's/^[1-9]$/few/'
		test -e `+home+` && echo same paths
		echo x > /dev/null && head -c 1 /dev/zero | wc -c | tr -d ' '
		test -w /dev/shm && test -c /dev/ptmx && echo devices
		ls /dev | grep -cE '^(sda|vda|kvm|mem)' || true`)
	want := "worker-0\nfew\nsame paths\n1\ndevices\n0\n"
	if strings.ReplaceAll(got, "10\n", "few\n") != want {
		t.Errorf("output = %q, want %q", got, want)
	}
	if name, _ := os.Hostname(); name == "worker-0" {
		t.Error("the host's name was changed")
	}
	if ok, reason := r.IsolationAvailable(t.Context()); !ok {
		t.Errorf("IsolationAvailable = false, %s", reason)
	}
}

func TestNetworkNamespace(t *testing.T) {
	needRoot(t)
	// A process that sleeps in a network namespace of its own lends it.
	holder := exec.Command("sleep", "600")
	holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = holder.Process.Kill()
		_ = holder.Wait()
	}()
	path := fmt.Sprintf("/proc/%d/ns/net", holder.Process.Pid)
	want, err := os.Readlink(path)
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, newRuntime(t), shell("readlink /proc/self/ns/net; exec sleep 600", func(s *Spec) { s.Isolation = &Isolation{NetNS: path} }))
	follow(t, p, want+"\n")
	var out strings.Builder
	if _, err := p.Exec(t.Context(), ExecOptions{Argv: []string{"readlink", "/proc/self/ns/net"}, Stdout: &out}); err != nil || out.String() != want+"\n" {
		t.Errorf("Exec = %v, in %q, want %q", err, out.String(), want)
	}
	_, err = newRuntime(t).Start(t.Context(), shell("true", func(s *Spec) { s.Isolation = &Isolation{NetNS: "/run/netns/none"} }))
	if err == nil || !strings.Contains(err.Error(), "opening the network namespace /run/netns/none") {
		t.Errorf("Start = %v, want that there is no such namespace", err)
	}
}

// TestHiddenGPUs runs itself again where /dev may be written to.
func TestHiddenGPUs(t *testing.T) {
	needRoot(t)
	if os.Getenv("MUSTER_TEST_PRIVATE_DEV") == "" {
		again := exec.Command(os.Args[0], "-test.run=^TestHiddenGPUs$", "-test.v")
		again.Env = append(os.Environ(), "MUSTER_TEST_PRIVATE_DEV=1")
		again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
		if out, err := again.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS: TestHiddenGPUs") {
			t.Errorf("in a mount namespace: %v\n%s", err, out)
		}
		return
	}
	// A /dev of our own: the host's nodes, and some GPUs.
	fake := t.TempDir()
	steps := []error{
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("/dev", fake, "", unix.MS_BIND|unix.MS_REC, ""),
		unix.Mount("tmpfs", "/dev", "tmpfs", 0, ""),
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty", "ptmx", "nvidia0", "nvidia1", "nvidia12", "nvidiactl", "nvidia-uvm"} {
		steps = append(steps, os.WriteFile("/dev/"+name, nil, 0o666))
		if !strings.HasPrefix(name, "nvidia") {
			steps = append(steps, unix.Mount(fake+"/"+name, "/dev/"+name, "", unix.MS_BIND, ""))
		}
	}
	if err := errors.Join(steps...); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Unmount(fake, unix.MNT_DETACH) }()
	r := newRuntime(t)
	for _, c := range []struct {
		name string
		iso  Isolation
		want string
	}{
		{"all", Isolation{}, "nvidia-uvm nvidia0 nvidia1 nvidia12 nvidiactl "},
		{"one", Isolation{HideGPUs: true, GPUDeviceNodes: []string{"/dev/nvidia12"}}, "nvidia-uvm nvidia12 nvidiactl "},
		{"none", Isolation{HideGPUs: true}, "nvidia-uvm nvidiactl "},
	} {
		if got := inside(t, r, c.iso, "cd /dev; echo nvidia* | sed 's/$/ /' | tr -d '\n'"); got != c.want {
			t.Errorf("%s: the container sees %q, want %q", c.name, got, c.want)
		}
	}
	// NVIDIA's libraries make the missing nodes themselves, as root. These do not open;
	// null's number stands for a GPU's.
	made := "cd /dev; mknod -m 666 nvidia1 c 1 3 && echo made; echo >nvidia1; echo >null && echo bound"
	if got := inside(t, r, Isolation{HideGPUs: true}, "("+made+") 2>&1"); !strings.HasPrefix(got, "made\n") || !strings.Contains(got, "nvidia1: Permission denied") || !strings.HasSuffix(got, "bound\n") {
		t.Errorf("a node that the container made: %q", got)
	}
}
