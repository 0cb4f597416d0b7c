//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// oneGPU is a TFJob of one worker with a GPU.
const oneGPU = `
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: door}
spec:
  tfReplicaSpecs:
    Worker:
      replicas: 1
      template:
        spec:
          containers:
          - name: tensorflow
            image: muster.dev/host
            command: ["true"]
            resources: {limits: {nvidia.com/gpu: 1}}
`

// TestObjectsElsewhere does what docs/kubernetes.md says of a backup with objects,
// word for word: queues and jobs of one Muster are restored into another, which
// starts none of them before all are there, and then all of them.
func TestObjectsElsewhere(t *testing.T) {
	m, ns, ctx := configured(t), "default", deadline(t, 6*time.Minute)
	kept, release := t.TempDir(), filepath.Join(t.TempDir(), "go")
	expect(t, m.Run(ctx, "queue", "create", "vision", "--guaranteed", "gpu=3"), 0)
	until := []string{"--queue", "vision", "--gpus", "3", "--", "sh", "-c", "until [ -e " + release + " ]; do sleep 0.2; done"}
	submit(t, m, ns, "over", "--", "true")
	waitPhase(t, m, ns, "over", v1alpha1.JobSucceeded)
	submit(t, m, ns, "runs", until...)
	waitPhase(t, m, ns, "runs", v1alpha1.JobRunning)
	submit(t, m, ns, "waits", until...)
	waitPhase(t, m, ns, "waits", v1alpha1.JobWaiting)
	expect(t, m.Run(ctx, "pause"), 0)
	expect(t, m.Kubectl(ctx, oneGPU, "-n", ns, "apply", "-f", "-"), 0)
	made := []string{"-n", ns, "wait", "--for=create", "--timeout=60s", "trainingjob/door"}
	expect(t, m.Kubectl(ctx, "", made...), 0)
	waitPhase(t, m, ns, "door", v1alpha1.JobWaiting)
	owner := job(t, m, ns, "door").OwnerReferences[0].UID
	documented(t, "kubernetes.md", "save objects", "TO="+kept, "MUSTER_HOME="+m.Home, "KUBECONFIG="+m.Kubeconfig())
	m.Abandon()

	again := configured(t)
	documented(t, "kubernetes.md", "restore objects", "FROM="+kept, "MUSTER_HOME="+again.Home, "KUBECONFIG="+again.Kubeconfig())
	expect(t, again.Kubectl(ctx, "", made...), 0)
	waitPhase(t, again, ns, "door", v1alpha1.JobSucceeded)
	harness.Eventually(t, time.Minute, "waiting until one of two runs, for which there is room", func() error {
		runs, waits := job(t, again, ns, "runs").Status.Phase, job(t, again, ns, "waits").Status.Phase
		if running := runs == v1alpha1.JobRunning; running == (waits == v1alpha1.JobRunning) {
			return fmt.Errorf("they are %s and %s", runs, waits)
		}
		return nil
	})
	if now := job(t, again, ns, "door").OwnerReferences[0].UID; now == owner {
		t.Errorf("the TFJob's TrainingJob was restored, not made by it: its owner is %s still", now)
	}
	expect(t, again.Run(ctx, "queue", "describe", "vision"), 0, "3")
	if r := again.Kubectl(ctx, "", "-n", ns, "get", "trainingjob", "over"); r.Code == 0 {
		t.Errorf("what had ended was restored: %s", r.Stdout)
	}
	if err := os.WriteFile(release, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	waitPhase(t, again, ns, "runs", v1alpha1.JobSucceeded)
	waitPhase(t, again, ns, "waits", v1alpha1.JobSucceeded)
	noDeviceTwice(t, again)
}
