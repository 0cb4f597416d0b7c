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
