package foreman_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-dev/muster/internal/node/shim/contract"
)

// TestMemoryOfADatum: the kernel ends a program that needs too much memory, and its worker reports
// that and goes on.
func TestMemoryOfADatum(t *testing.T) {
	name := "muster-test-" + filepath.Base(t.TempDir()) + "-" + filepath.Base(filepath.Dir(t.TempDir()))
	group, limit := filepath.Join("/sys/fs/cgroup/memory", name), "memory.limit_in_bytes"
	if _, err := os.Stat("/sys/fs/cgroup/memory/" + limit); err != nil {
		group, limit = filepath.Join("/sys/fs/cgroup", name), "memory.max"
	}
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Skipf("control groups cannot be made: %v", err)
	}
	t.Cleanup(func() { _ = os.Remove(group) })
	if err := os.WriteFile(filepath.Join(group, limit), []byte("67108864"), 0); err != nil {
		t.Skipf("memory cannot be limited: %v", err)
	}
	s := open(t)
	w := s.work(shell(`echo $MUSTER_DATUM > $MUSTER_OUTPUT/made; [ $MUSTER_DATUM != big ] || exec tail /dev/zero`), "big", "small")
	worker := dedicated(s.Folder("run.stage"))
	cmd := exec.Command("/bin/sh", "-c", `echo $$ > `+filepath.Join(group, "cgroup.procs")+` && exec "$0"`, worker.Path)
	worker.Env = append(worker.Env, contract.IDVariable+"="+name)
	cmd.Env, cmd.Stderr = worker.Env, os.Stderr
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	s.over(w)
	if got := s.recorded["big"]; !strings.HasPrefix(got, "OOM killed: the program needs more memory than its limit of 64.0 MiB (peak 6") {
		t.Errorf("the datum failed with %q", got)
	}
	if got := s.recorded["small"]; got != "small\n" {
		t.Errorf("the next one has %q", got)
	}
}
