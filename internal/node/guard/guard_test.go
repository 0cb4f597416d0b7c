package guard

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// Environment variables that make this program a helper.
const (
	tryEnv   = "MUSTER_GUARD_TEST_TRY"   // opens files, and prints the outcome of each
	guardEnv = "MUSTER_GUARD_TEST_GUARD" // guards a group until it is killed
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(tryEnv) != "":
		for path := range strings.SplitSeq(os.Getenv(tryEnv), ":") {
			fmt.Println(outcome(path))
		}
	case os.Getenv(guardEnv) != "":
		g, err := Open(Options{Level: GPUs, Groups: []string{os.Getenv(guardEnv)}, ranges: zero})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("guarded")
		if err := g.Run(context.Background()); err != nil {
			fmt.Println(err)
		}
	default:
		os.Exit(m.Run())
	}
}

func outcome(path string) string {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err == nil {
		err = f.Close()
	}
	switch {
	case err == nil:
		return "opened"
	case errors.Is(err, unix.EPERM):
		return "refused"
	}
	return err.Error()
}

// zero is /dev/zero, which stands for a GPU.
var zero = []Range{{Major: 1, First: 5, Last: 5}}

// machine is a control group with the device files that a test opens in it.
type machine struct {
	t             *testing.T
	mount, group  string
	gpu, harmless string
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	if ok, reason := Available(); !ok {
		t.Skip(reason)
	}
	mount, err := unifiedMount()
	if err != nil {
		t.Fatal(err)
	}
	path, err := os.MkdirTemp(mount, "muster-test-") //nolint:usetesting // a control group is a folder of this file system
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, mount: mount, group: filepath.Base(path), gpu: filepath.Join(t.TempDir(), "gpu"), harmless: filepath.Join(t.TempDir(), "harmless")}
	t.Cleanup(func() { m.removeGroup() })
	err = errors.Join(unix.Mknod(m.gpu, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))), unix.Mknod(m.harmless, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// removeGroup removes the group with those below it, once the kernel has let their processes go.
func (m *machine) removeGroup() {
	root := filepath.Join(m.mount, m.group)
	groups := []string{root}
	below, _ := filepath.Glob(root + "/*/cgroup.procs")
	for _, b := range below {
		groups = append([]string{filepath.Dir(b)}, groups...)
	}
	for _, g := range groups {
		await(m.t, "the control group is removed", func() bool {
			err := unix.Rmdir(g)
			return err == nil || errors.Is(err, unix.ENOENT)
		})
	}
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(10 * time.Second); !done(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("waited 10 s: %s", what)
		}
	}
}

// command starts this program as a helper in a group.
func (m *machine) command(group, variable, value string) *exec.Cmd {
	m.t.Helper()
	folder, err := os.Open(filepath.Join(m.mount, group))
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = folder.Close() })
	cmd := exec.CommandContext(m.t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), variable+"="+value)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(folder.Fd())}
	return cmd
}

// try opens the GPU and the harmless device in a group.
func (m *machine) try(group string) string {
	m.t.Helper()
	out, err := m.command(group, tryEnv, m.gpu+":"+m.harmless).Output()
	if err != nil {
		m.t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(out)), " ")
}

func (m *machine) open(o Options) *Guard {
	m.t.Helper()
	if o.Level = GPUs; o.ranges == nil {
		o.ranges = zero
	}
	if o.Groups == nil {
		o.Groups = []string{m.group}
	}
	g, err := Open(o)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() {
		if err := g.Close(); err != nil {
			m.t.Error(err)
		}
	})
	return g
}

// TestGuard: in the guarded group and below it root cannot open the guarded device, and can open
// others; elsewhere nothing changes, and nothing is left when the guard closes.
func TestGuard(t *testing.T) {
	m := newMachine(t)
	if err := os.Mkdir(filepath.Join(m.mount, m.group, "session"), 0o755); err != nil {
		t.Fatal(err)
	}
	below := m.group + "/session"
	g := m.open(Options{})
	for group, want := range map[string]string{m.group: "refused opened", below: "refused opened", ".": "opened opened"} {
		if got := m.try(group); got != want {
			t.Errorf("in %s: %s, want %s", group, got, want)
		}
	}
	if want := "on (gpus): programs in " + m.group + " cannot open the GPUs"; g.String() != want {
		t.Errorf("%q, want %q", g, want)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if got := m.try(below); got != "opened opened" {
		t.Errorf("after Close: %s", got)
	}
}

// TestKilled: the filter of a process that is killed goes with it, and the next one guards again.
func TestKilled(t *testing.T) {
	m := newMachine(t)
	cmd := m.command(".", guardEnv, m.group)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	word := make([]byte, 100)
	n, err := out.Read(word)
	if got := string(word[:n]); err != nil || got != "guarded\n" {
		t.Fatalf("the helper says %q, %v", got, err)
	}
	if got := m.try(m.group); got != "refused opened" {
		t.Errorf("guarded: %s", got)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	await(t, "the filter goes with its process", func() bool { return m.try(m.group) == "opened opened" })
	m.open(Options{})
	if got := m.try(m.group); got != "refused opened" {
		t.Errorf("guarded again: %s", got)
	}
}

// TestRefresh: a group that is made later, or made again, gets the filter; other numbers of devices
// count at the next look.
func TestRefresh(t *testing.T) {
	m := newMachine(t)
	late := m.group + "/late"
	path := filepath.Join(m.mount, late)
	g := m.open(Options{Groups: []string{late}})
	if want := "on (gpus); waits for the control group " + late; g.String() != want {
		t.Errorf("%q, want %q", g, want)
	}
	for range 2 {
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := g.refresh(); err != nil {
			t.Fatal(err)
		}
		if got := m.try(late); got != "refused opened" {
			t.Errorf("a new group: %s", got)
		}
		await(t, "the group is removed", func() bool { return unix.Rmdir(path) == nil })
	}
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	g.options.ranges = []Range{{Major: 9, Last: math.MaxUint32}, {Major: 1, First: 3, Last: 3}}
	if err := g.refresh(); err != nil {
		t.Fatal(err)
	}
	if got := m.try(late); got != "opened refused" {
		t.Errorf("other numbers: %s", got)
	}
	g.options.ranges = []Range{}
	if err := g.refresh(); err != nil {
		t.Fatal(err)
	}
	if got := m.try(late); got != "opened opened" {
		t.Errorf("no devices: %s", got)
	}
}

// TestKept: Muster's own processes leave the guarded groups before the filter is attached.
func TestKept(t *testing.T) {
	m := newMachine(t)
	kept := m.command(m.group, guardEnv, "muster-test-absent") // lives until it is killed
	if err := kept.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = kept.Process.Kill(), kept.Wait() })
	m.open(Options{Kept: func() []int { return []int{kept.Process.Pid, math.MaxInt32} }})
	if got, err := groupOf(kept.Process.Pid); err != nil || got != OwnGroup {
		t.Errorf("the process is in %q, %v", got, err)
	}
	if procs, err := os.ReadFile(filepath.Join(m.mount, m.group, "cgroup.procs")); err != nil || strings.Contains(string(procs), strconv.Itoa(kept.Process.Pid)) {
		t.Errorf("it is still in the guarded group: %s, %v", procs, err)
	}
}

func TestRangesOf(t *testing.T) {
	const text = "Character devices:\n  1 mem\n195 nvidia\n195 nvidiactl\n234 nvidia-caps-imex-channels\n235 nvidia-caps\n236 nvidia-uvm\n\nBlock devices:\n  8 sd\n236 nvidia-uvm\n"
	all := uint32(math.MaxUint32)
	for level, want := range map[Level][]Range{
		GPUs:    {{195, 0, 253}, {234, 0, all}, {235, 0, all}, {236, 0, all}},
		Compute: {{236, 0, all}},
	} {
		if diff := cmp.Diff(want, rangesOf(level, text)); diff != "" {
			t.Errorf("%s:\n%s", level, diff)
		}
	}
	if diff := cmp.Diff([]Range{{195, 0, 253}}, rangesOf(GPUs, "")); diff != "" {
		t.Errorf("before the driver is loaded:\n%s", diff)
	}
}

func TestCheckGroups(t *testing.T) {
	if err := CheckGroups([]string{"user.slice", "system.slice/sshd.service", "muster.slice"}); err != nil {
		t.Error(err)
	}
	for _, g := range []string{"", ".", "/user.slice", "../x", "user.slice/..", "muster", "muster/own"} {
		if CheckGroups([]string{g}) == nil {
			t.Errorf("%q was accepted", g)
		}
	}
	if _, err := ParseLevel("on"); err == nil || !strings.Contains(err.Error(), `guard "on": allowed are none, gpus, compute`) {
		t.Errorf("a level that does not exist: %v", err)
	}
}
