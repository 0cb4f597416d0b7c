package process

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/node/shim/contract"
)

// limited gives a container limits under a parent of the test's own, which is
// removed after it.
func limited(t *testing.T, l Limits) func(*Spec) {
	t.Helper()
	ok, reason := LimitsAvailable()
	if !ok {
		t.Skip("needs control groups: " + reason)
	}
	l.Parent = "muster-test-" + strconv.Itoa(os.Getpid()) + "-" + strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-"))
	t.Cleanup(func() {
		h := readHierarchies()
		for _, mount := range append([]string{h.unified}, h.legacy["memory"], h.legacy["cpu"], h.legacy["pids"]) {
			if mount != "" {
				if err := os.Remove(filepath.Join(mount, l.Parent)); err != nil && !os.IsNotExist(err) {
					t.Error(err)
				}
			}
		}
	})
	return func(s *Spec) { s.Limits = &l }
}

// hog is a container that takes 200 MiB.
func hog(s *Spec) {
	s.Argv = []string{"python3", "-c", "x = bytearray(200 << 20); print(len(x))"}
}

func TestMemoryLimit(t *testing.T) {
	for name, tier := range tiers {
		t.Run(name, func(t *testing.T) {
			needRoot(t)
			limit := limited(t, Limits{MemoryBytes: 64 << 20})
			r := newRuntime(t)
			t.Run("main", func(t *testing.T) {
				if exit := wait(t, start(t, r, shell("", tier, limit, hog))); !exit.OOMKilled || exit.Code != 137 {
					t.Errorf("exit = %+v, want that memory ran out", exit)
				}
			})
			t.Run("child", func(t *testing.T) {
				exit := wait(t, start(t, r, shell(`python3 -c "x = bytearray(200 << 20)" || exit 9`, tier, limit)))
				if !exit.OOMKilled || exit.Code == 0 {
					t.Errorf("exit = %+v, want that memory ran out", exit)
				}
			})
			t.Run("exec", func(t *testing.T) {
				p := start(t, r, shell("exec sleep 600", tier, limit))
				code, err := p.Exec(t.Context(), ExecOptions{Argv: []string{"python3", "-c", "x = bytearray(200 << 20)"}})
				if err != nil || code != 137 {
					t.Errorf("Exec = %d, %v, want 137", code, err)
				}
				if err := p.Kill(context.Background()); err != nil {
					t.Fatal(err)
				}
			})
			t.Run("enough", func(t *testing.T) {
				enough := func(s *Spec) {
					l := *s.Limits
					l.MemoryBytes = 1 << 30
					s.Limits = &l
				}
				p := start(t, r, shell("", tier, limit, enough, hog))
				exit := wait(t, p)
				if exit.OOMKilled || exit.Code != 0 {
					t.Errorf("exit = %+v", exit)
				}
				if err := p.Remove(); err != nil {
					t.Error(err)
				}
				for _, g := range p.identity.Groups {
					if _, err := os.Stat(g.Path); !os.IsNotExist(err) {
						t.Errorf("the control group %s is still there", g.Path)
					}
				}
			})
		})
	}
}

func TestProcessAndCPULimit(t *testing.T) {
	eachTier(t, func(t *testing.T, tier func(*Spec)) {
		needRoot(t)
		limit := limited(t, Limits{PIDs: 5, CPUMillis: 200, CPURequestMillis: 500})
		p := start(t, newRuntime(t), shell(`
			for i in 1 2 3 4 5 6 7 8 9 10; do sleep 600 & done 2>/dev/null; echo not reached`, tier, limit))
		exit := wait(t, p)
		if exit.Code == 0 {
			t.Errorf("exit = %+v, output %q, want that no more processes could be made", exit, output(t, p))
		}
	})
}

func TestSettings(t *testing.T) {
	got := settings(&Limits{MemoryBytes: 1 << 30, CPUMillis: 1500, CPURequestMillis: 1000, PIDs: 7})
	want := []setting{
		{"memory",
			[][2]string{{"memory.max", "1073741824"}, {"(memory.swap.max)", "0"}, {"(memory.oom.group)", "1"}},
			[][2]string{{"memory.limit_in_bytes", "1073741824"}, {"(memory.memsw.limit_in_bytes)", "1073741824"}}},
		{"cpu",
			[][2]string{{"cpu.weight", "39"}, {"cpu.max", "150000 100000"}},
			[][2]string{{"cpu.shares", "1024"}, {"cpu.cfs_period_us", "100000"}, {"cpu.cfs_quota_us", "150000"}}},
		{"pids", [][2]string{{"pids.max", "7"}}, [][2]string{{"pids.max", "7"}}},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(setting{})); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	if got := settings(nil); got != nil {
		t.Errorf("settings(nil) = %v", got)
	}
}

func TestUnifiedGroupEndsTheTree(t *testing.T) {
	needRoot(t)
	if readHierarchies().unified == "" {
		t.Skip("needs a control group hierarchy of version 2")
	}
	p := start(t, newRuntime(t), shell("exec sleep 600"))
	var group contract.Group
	for _, g := range p.identity.Groups {
		if g.Unified {
			group = g
		}
	}
	if members := groupMembers(group); len(members) != 1 || members[0] != p.PID() {
		t.Errorf("in the group %q: %v, want %d", group.Path, members, p.PID())
	}
}
