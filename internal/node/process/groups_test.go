package process

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/node/shim/contract"
)

func TestHierarchiesOf(t *testing.T) {
	unified := t.TempDir()
	writeFile(t, filepath.Join(unified, "cgroup.controllers"), "cpuset cpu io memory pids\n")
	for _, c := range []struct {
		name, mountinfo string
		want            hierarchies
	}{
		{"none", "22 1 0:20 / / rw - ext4 /dev/vda rw\n", hierarchies{legacy: map[string]string{}}},
		{"version 2 alone", "30 23 0:26 / " + unified + " rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
			hierarchies{unified: unified, controllers: []string{"cpuset", "cpu", "io", "memory", "pids"}, legacy: map[string]string{}}},
		{"both", `31 23 0:27 / /sys/fs/cgroup/cpu,cpuacct rw shared:5 - cgroup cgroup rw,cpu,cpuacct
32 23 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
33 23 0:29 / /sys/fs/cgroup/nowhere rw - cgroup2 cgroup2 rw
`, hierarchies{unified: "/sys/fs/cgroup/nowhere", legacy: map[string]string{"rw": "/sys/fs/cgroup/cpu,cpuacct", "cpu": "/sys/fs/cgroup/cpu,cpuacct", "cpuacct": "/sys/fs/cgroup/cpu,cpuacct", "memory": "/sys/fs/cgroup/memory"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := hierarchiesOf(c.mountinfo)
			if len(got.controllers) == 0 {
				got.controllers = nil
			}
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(hierarchies{})); diff != "" {
				t.Errorf("hierarchies (-want +got):\n%s", diff)
			}
		})
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// filesBelow reads all files of a folder, by their relative paths.
func filesBelow(t *testing.T, folder string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(folder, path)
		files[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// limitedSpec is a container with all limits.
func limitedSpec(parent string) Spec {
	return Spec{ID: "uid/main/0", PodUID: "uid", Container: "main",
		Limits: &Limits{MemoryBytes: 64 << 20, CPUMillis: 1500, CPURequestMillis: 1000, PIDs: 7, Parent: parent}}
}

// TestUnifiedGroups makes groups of version 2 in a folder that has their shape:
// the machine that the tests run on may have none that limits anything.
func TestUnifiedGroups(t *testing.T) {
	root := t.TempDir()
	// What the kernel puts into a new group, as far as it matters: limits of
	// swap, but not, as with kernels before 4.19, memory.oom.group.
	writeFile(t, filepath.Join(root, "cgroup.controllers"), "cpuset cpu io memory pids\n")
	writeFile(t, filepath.Join(root, "outer/inner/uid_main_0/memory.swap.max"), "max\n")
	h := hierarchies{unified: root, controllers: []string{"cpuset", "cpu", "io", "memory", "pids"}, legacy: map[string]string{"memory": "/not/this"}}
	groups, err := makeGroups(h, limitedSpec("outer/../outer/inner"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, "outer/inner/uid_main_0")
	if diff := cmp.Diff([]contract.Group{{Path: path, Unified: true, Memory: true}}, groups); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	const enable = "+memory +cpu +pids"
	want := map[string]string{
		"cgroup.controllers":                     "cpuset cpu io memory pids\n",
		"cgroup.subtree_control":                 enable,
		"outer/cgroup.subtree_control":           enable,
		"outer/inner/cgroup.subtree_control":     enable,
		"outer/inner/uid_main_0/memory.max":      "67108864",
		"outer/inner/uid_main_0/memory.swap.max": "0",
		"outer/inner/uid_main_0/cpu.weight":      "39",
		"outer/inner/uid_main_0/cpu.max":         "150000 100000",
		"outer/inner/uid_main_0/pids.max":        "7",
	}
	if diff := cmp.Diff(want, filesBelow(t, root)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	writeFile(t, filepath.Join(path, "cgroup.procs"), "12\n13\n")
	if diff := cmp.Diff([]int{12, 13}, groupMembers(groups[0])); diff != "" {
		t.Errorf("members (-want +got):\n%s", diff)
	}
	if ok, reason := limitsAvailable(h); !ok {
		t.Error(reason)
	}
}

// TestUnifiedGroupWithoutLimits: it only serves to find the tree, so nothing
// is enabled, and it being impossible is no error.
func TestUnifiedGroupWithoutLimits(t *testing.T) {
	root := t.TempDir()
	plain := Spec{ID: "uid/main/0", PodUID: "uid", Container: "main"}
	groups, err := makeGroups(hierarchies{unified: root}, plain)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]contract.Group{{Path: filepath.Join(root, "muster/uid_main_0"), Unified: true}}, groups); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	if files := filesBelow(t, root); len(files) != 0 {
		t.Errorf("files were written: %v", files)
	}
	groups, err = makeGroups(hierarchies{unified: filepath.Join(root, "none")}, plain)
	if err != nil || len(groups) != 0 {
		t.Errorf("without version 2: %v, %v", groups, err)
	}
	isolated := plain
	isolated.Isolation = &Isolation{}
	groups, err = makeGroups(hierarchies{unified: root}, isolated)
	if err != nil || len(groups) != 0 {
		t.Errorf("an isolated container, whose tree ends with its process 1, has the groups %v, %v", groups, err)
	}
}

func TestGroupsThatCannotBeMade(t *testing.T) {
	root, legacy := t.TempDir(), t.TempDir()
	for name, h := range map[string]hierarchies{
		"no controller anywhere": {unified: root, controllers: []string{"cpu", "pids"}, legacy: map[string]string{"cpu": legacy}},
		"not writable":           {unified: filepath.Join(root, "none"), controllers: []string{"memory", "cpu", "pids"}},
	} {
		t.Run(name, func(t *testing.T) {
			if groups, err := makeGroups(h, limitedSpec("")); err == nil || len(groups) != 0 {
				t.Errorf("got %v, %v; want an error and no groups", groups, err)
			}
			if ok, reason := limitsAvailable(h); ok || reason == "" {
				t.Errorf("LimitsAvailable = %v, %q", ok, reason)
			}
		})
	}
	if entries, _ := os.ReadDir(filepath.Join(root, "muster")); len(entries) != 0 {
		t.Errorf("groups were left: %v", entries)
	}
}

// TestSweepGroups uses real groups: only the kernel knows who lives in one.
func TestSweepGroups(t *testing.T) {
	h := readHierarchies()
	limit := limited(t, Limits{PIDs: 20})
	live := start(t, newRuntime(t), shell("exec sleep 600", limit))
	parent := live.Spec().Limits.Parent
	mount := h.legacy["pids"]
	if mount == "" {
		mount = h.unified
	}
	left := filepath.Join(mount, parent, "left_main_0")
	if err := os.Mkdir(left, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(left) })
	if err := stamp(left); err != nil {
		t.Fatal(err)
	}
	exists := func(path string) bool { _, err := os.Stat(path); return err == nil }
	sweepGroups(h, parent, time.Now())
	if !exists(left) {
		t.Error("a group that may just be in the making was removed")
	}
	sweepGroups(h, parent, time.Now().Add(abandoned+time.Second))
	if exists(left) {
		t.Error("the group that was left is still there")
	}
	for _, g := range live.identity.Groups {
		if !exists(g.Path) {
			t.Errorf("the group %s, which a process lives in, was removed", g.Path)
		}
	}
	if err := live.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
}
