package process

import (
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestReadOnlyHost: a container can write to no mount of the host's tree, only to its
// own mounts.
func TestReadOnlyHost(t *testing.T) {
	needRoot(t)
	host := t.TempDir()
	mine, other := filepath.Join(host, "mine"), filepath.Join(host, "other")
	for _, dir := range []string{mine, other} {
		if err := os.Mkdir(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	iso := Isolation{ReadOnlyRoot: true, Mounts: []Mount{{Source: mine, Target: mine}, {Tmpfs: true, ReadOnly: true, Target: "/var"}}}
	script := `touch "$0/mine/x" && echo mine
for at in "$0/other" / /etc /usr /run /sys/fs/cgroup /tmp /var; do touch $at/muster-test-x 2>/dev/null && echo "$at was written"; done
touch /dev/shm/x && echo shm; cat /proc/self/status >/dev/null && echo proc`
	got := inside(t, newRuntime(t), iso, script, func(s *Spec) { s.Argv = append(s.Argv, host) })
	if got != "mine\nshm\nproc\n" {
		t.Errorf("it wrote %q", got)
	}
	if _, err := os.Stat(filepath.Join(mine, "x")); err != nil {
		t.Error(err)
	}
}

func TestNoNewPrivileges(t *testing.T) {
	eachTier(t, func(t *testing.T, tier func(*Spec)) {
		for want, option := range map[string]func(*Spec){"NoNewPrivs:\t0": nil, "NoNewPrivs:\t1": func(s *Spec) { s.NoNewPrivileges = true }} {
			p := start(t, newRuntime(t), shell("grep NoNewPrivs /proc/self/status", tier, option))
			wait(t, p)
			if got := strings.TrimSpace(output(t, p)); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
	})
}

// TestConfined: a container of another user than root gains no rights by a set-user-ID program or a
// device file of a volume, nor by a set-user-ID program of the machine. For root nothing changes.
func TestConfined(t *testing.T) {
	needRoot(t)
	host := t.TempDir()
	if err := errors.Join(os.Chmod(host, 0o755), os.Chmod(filepath.Dir(host), 0o755)); err != nil {
		t.Fatal(err)
	}
	volume := filepath.Join(host, "volume")
	program, device := filepath.Join(volume, "id"), filepath.Join(volume, "null")
	id, err := exec.LookPath("id")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(id)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(volume, 0o755), os.WriteFile(program, text, 0o755), os.Chmod(program, 0o755|os.ModeSetuid),
		unix.Mknod(device, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))), os.Chmod(device, 0o666)); err != nil {
		t.Fatal(err)
	}
	mounts := []Mount{
		{Source: volume, Target: "/muster-test"}, {Source: volume, Target: "/muster-test-ro", ReadOnly: true},
		{Source: "/dev/null", Target: "/muster-test-null"}, {Source: volume, Target: volume},
	}
	const script = `grep NoNewPrivs /proc/self/status | tr -dc 01; echo
for at in /muster-test /muster-test-ro ` + "\"$0\"" + `; do $at/id -u; done
for at in /muster-test/null /muster-test-ro/null /dev/null /muster-test-null; do echo 2>/dev/null >$at && echo opened || echo refused; done; true`
	other, root := uint32(65534), uint32(0)
	const free, bound = "opened\nopened\nopened\nopened\n", "refused\nrefused\nopened\nopened\n"
	for _, c := range []struct {
		name    string
		uid     *uint32
		confine bool
		want    string
	}{
		{"another user", &other, true, "1\n65534\n65534\n65534\n" + bound},
		{"another user, as asked", &other, false, "0\n0\n0\n0\n" + free},
		{"root", &root, true, "0\n0\n0\n0\n" + bound},
		{"root, not confined", nil, false, "0\n0\n0\n0\n" + free},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := inside(t, newRuntime(t), Isolation{Confine: c.confine, Mounts: mounts}, script, func(s *Spec) {
				s.UID, s.Argv = c.uid, append(s.Argv, volume)
			})
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestTethered: a tethered container ends, with all its processes, when its starter's
// connection closes; another container lives on.
func TestTethered(t *testing.T) {
	eachTier(t, func(t *testing.T, tier func(*Spec)) {
		r := newRuntime(t)
		marks := map[bool]string{true: "mark-" + rand.Text(), false: "mark-" + rand.Text()}
		for tethered, mark := range marks {
			p := start(t, r, shell("setsid sh -c 'sleep 600; : "+mark+"' & echo up; trap '' TERM; sleep 600; : "+mark, tier, func(s *Spec) { s.Tethered = tethered }))
			follow(t, p, "up\n")
		}
		r.Close()
		eventually(t, "the tethered container ends", func() bool { return alive(marks[true]) == 0 })
		if alive(marks[false]) == 0 {
			t.Error("the container that is not tethered ended, too")
		}
	})
}
