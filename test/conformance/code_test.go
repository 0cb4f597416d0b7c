//go:build conformance

package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCodeComesAlong: what is in a folder here is where members work, on every
// node, and each job has a copy of its own that its members may write to.
func TestCodeComesAlong(t *testing.T) {
	if the.counts {
		t.Skip("no agent brings code to the nodes of this platform")
	}
	ns, folder := the.namespace(t), t.TempDir()
	for name, text := range map[string]string{
		"say.sh":       `echo "it reads $(cat lib/data.txt)"; touch lib/written`,
		"lib/data.txt": "what is here",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	line := []string{"-n", ns, "run", "--code", folder, "--image", the.image, "--checkpoints", "none", "--workers", "4", "--gpus", "1"}
	r := the.muster(t, append(line, "--", "sh", "say.sh")...)
	if r.Code != 0 || strings.Count(r.Stdout, "it reads what is here") != 4 {
		t.Fatalf("exit code %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
	// The same again sends nothing, and finds nothing of the first job.
	if r = the.muster(t, append(line, "--", "sh", "-c", "test ! -e lib/written && cat lib/data.txt")...); r.Code != 0 {
		t.Errorf("exit code %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
	fetchersHaveNoRights(t)
}

// fetchersHaveNoRights compares the processes that fetched for agents on this machine with
// the table of the design page.
func fetchersHaveNoRights(t *testing.T) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, path := range all {
		if args, err := os.ReadFile(path); err != nil || !strings.Contains(string(args), "node\x00fetch\x00--folders=") {
			continue // another process, or one that is gone
		}
		found++
		text, err := os.ReadFile(filepath.Join(filepath.Dir(path), "status"))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"\nUid:\t61008\t61008\t61008\t61008\n", "\nCapPrm:\t0000000000000000\n", "\nCapEff:\t0000000000000000\n", "\nNoNewPrivs:\t1\n"} {
			if !strings.Contains(string(text), want) {
				t.Errorf("a process that fetches is without %q:\n%s", strings.TrimSpace(want), text)
			}
		}
	}
	if found == 0 {
		t.Error("no process fetches for an agent")
	}
}
