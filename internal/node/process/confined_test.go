package process

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
