//go:build conformance

package conformance

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// TestATenantAtTheDoor has somebody who may see one namespace alone send code to
// the manager in its pod, and ask it why their job waits, while somebody else has
// all GPUs.
func TestATenantAtTheDoor(t *testing.T) {
	if the.vanish == nil {
		t.Skip("embedded Muster has neither tenants nor a door")
	}
	dir := t.TempDir()
	kubeconfig, code := filepath.Join(dir, "ada.kubeconfig"), filepath.Join(dir, "code")
	if err := os.Mkdir(code, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(code, "train.sh"), []byte("echo trained\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := the.muster(t, "user", "add", "ada", "--lifetime", "1h", "--file", kubeconfig); r.Code != 0 {
		t.Fatalf("muster user add: %s", r.Stderr)
	}
	t.Cleanup(func() {
		if r := the.muster(t, "user", "remove", "ada", "--force", "--yes"); r.Code != 0 {
			t.Errorf("muster user remove: %s", r.Stderr)
		}
	})
	ada := func(args ...string) harness.Result {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, harness.Binary(), append([]string{"--kubeconfig", kubeconfig}, args...)...)
		cmd.Env = append(os.Environ(), "MUSTER_HOME="+dir)
		return harness.Finish(cmd)
	}
	others := the.namespace(t)
	the.holding(t, others, "covert", 4, 1, "")
	the.until(t, others, "covert", v1alpha1.JobRunning)
	// Twice, with the same code.
	for _, name := range []string{"first", "second"} {
		r := ada("run", "--detach", "--name", name, "--queue", "ada", "--gpus", "4", "--checkpoints", "none", "--image", the.image, "--code", code, "--", "sh", "train.sh")
		if r.Code != 0 {
			t.Fatalf("muster run with code, as a tenant: %s", r.Stderr)
		}
		the.until(t, "ada", name, v1alpha1.JobWaiting)
	}
	for _, ask := range [][]string{{"why", "first"}, {"top"}} {
		harness.Eventually(t, 20*time.Second, "waiting for an answer to "+ask[0], func() error {
			r := ada(ask...)
			switch {
			case r.Code != 0:
				return fmt.Errorf("muster %s: %s", ask[0], r.Stderr)
			case strings.Contains(r.Stdout, "covert") || strings.Contains(r.Stdout, others):
				t.Errorf("muster %s tells a tenant of others' jobs: %s", ask[0], r.Stdout)
			case ask[0] == "why" && !strings.Contains(r.Stdout, "GPUs"):
				return fmt.Errorf("muster why says %s", r.Stdout)
			case ask[0] == "top" && strings.Count(r.Stdout, "others/pod") != 4:
				return fmt.Errorf("muster top, of four GPUs that others hold, says %s", r.Stdout)
			}
			return nil
		})
	}
	for _, name := range []string{"first", "second"} {
		if r := ada("delete", name); r.Code != 0 {
			t.Errorf("muster delete: %s", r.Stderr)
		}
	}
}
