package lineage

import (
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       Stat
		fails      bool
	}{
		{"a name like a trap", "42 (a) R 1 (b)) S 7 42 42 0 -1 4194304 1 2 3 4 10 20 30 40 20 0 1 0 12345 1000 9 18446744073709551615", Stat{State: 'S', Parent: 7, Group: 42, Session: 42, CPUTicks: 30, ReapedTicks: 70, StartTicks: 12345, RSSPages: 9}, false},
		{"cut short", "42 (a) S 7", Stat{}, true},
		{"empty", "", Stat{}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parse("stat", []byte(c.text))
			if (err != nil) != c.fails {
				t.Fatalf("parse = %v", err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("stat (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDescendants(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sleep 600 & sh -c 'sleep 600 & echo; wait' & wait")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	}()
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	got := Descendants(cmd.Process.Pid)
	if len(got) != 3 {
		t.Errorf("Descendants = %v, want three", got)
	}
	scanned := scan(cmd.Process.Pid)
	slices.Sort(got)
	slices.Sort(scanned)
	if diff := cmp.Diff(got, scanned); diff != "" {
		t.Errorf("by the lists and by scanning (-lists +scan):\n%s", diff)
	}
	if !slices.Contains(Descendants(os.Getpid()), cmd.Process.Pid) {
		t.Error("the child is no descendant")
	}
	stat, err := Read(cmd.Process.Pid)
	if err != nil || stat.Parent != os.Getpid() || stat.StartTicks == 0 {
		t.Errorf("Read = %+v, %v", stat, err)
	}
	if _, err := Read(1 << 30); !os.IsNotExist(err) {
		t.Errorf("Read of no process = %v", err)
	}
}

func TestBefore(t *testing.T) {
	m := Moment{ticks: 100, last: 50, max: 1000}
	for _, c := range []struct {
		name  string
		pid   int
		ticks uint64
		want  bool
	}{
		{"an earlier tick", 999, 99, true},
		{"a later tick", 1, 101, false},
		{"the last number", 50, 100, true},
		{"the next number", 51, 100, false},
		{"a number before", 49, 100, true},
		{"a number before the numbers began anew", 990, 100, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := m.Before(c.pid, Stat{StartTicks: c.ticks}); got != c.want {
				t.Errorf("Before = %t, want %t", got, c.want)
			}
		})
	}
	// And really: between two processes.
	first := sleeper(t)
	now := Now()
	second := sleeper(t)
	for pid, want := range map[int]bool{first: true, second: false} {
		stat, err := Read(pid)
		if err != nil {
			t.Fatal(err)
		}
		if got := now.Before(pid, stat); got != want {
			t.Errorf("process %d (%+v) was there at %+v: %t, want %t", pid, stat, now, got, want)
		}
	}
}

// sleeper starts a process that ends with the test.
func sleeper(t *testing.T) (pid int) {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd.Process.Pid
}

func TestHandling(t *testing.T) {
	cmd := exec.Command("sh", "-c", "trap '' TERM; trap : USR1; echo; while :; do sleep 0.05; done")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	h := ReadHandling(cmd.Process.Pid)
	if !h.Ignores(syscall.SIGTERM) || h.Catches(syscall.SIGTERM) || h.Ignores(syscall.SIGUSR1) || !h.Catches(syscall.SIGUSR1) || h.Ignores(syscall.SIGHUP) {
		t.Errorf("ReadHandling = %+v", h)
	}
	if none := ReadHandling(1 << 30); none != (Handling{}) {
		t.Errorf("ReadHandling of no process = %+v", none)
	}
}
