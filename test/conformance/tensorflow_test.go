//go:build conformance

package conformance

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/cluster"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// quickstart is the script of `make quickstart`, at the same place on every
// platform.
func quickstart() string {
	return filepath.Join(harness.Root(), "examples", "quickstart", "train.py")
}

// environment is a Python with what the quickstart needs.
func environment(ctx context.Context) (string, error) {
	return cluster.Packages(ctx, "tensorflow", "examples/quickstart/requirements.txt")
}

// The job of `make quickstart`: two parameter servers that never end by
// themselves, and three workers on a GPU each.
func TestTensorFlow(t *testing.T) {
	if the.bring != nil {
		if err := the.bring(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	the.storage(t)
	ns := the.namespace(t)
	the.submit(t, ns, "digits", fmt.Sprintf(`
framework: TensorFlow
environment: {image: %q}
checkpoints: {size: 1Gi}
roles:
- {name: ps, replicas: 2, command: [python, %[2]q]}
- {name: worker, replicas: 3, gpus: 1, command: [python, %[2]q]}
`, the.python, quickstart()))
	var job *v1alpha1.TrainingJob
	harness.Eventually(t, 5*time.Minute, "waiting until it has learned", func() error {
		job = the.job(t, ns, "digits")
		if job.Status.Phase != v1alpha1.JobSucceeded && job.Status.Phase != v1alpha1.JobFailed {
			return fmt.Errorf("it is %s: %s", job.Status.Phase, job.Status.Message)
		}
		return nil
	})
	said := the.output(t, ns, "digits-worker-0")
	if job.Status.Phase != v1alpha1.JobSucceeded {
		t.Fatalf("it is %s: %s\n%s", job.Status.Phase, job.Status.Message, said)
	}
	accuracy := regexp.MustCompile(`done at step \d+: accuracy ([0-9.]+)`).FindStringSubmatch(said)
	if accuracy == nil {
		t.Fatalf("worker 0 says nothing of its accuracy:\n%s", said)
	}
	if learned, err := strconv.ParseFloat(accuracy[1], 64); err != nil || learned < 0.8 {
		t.Errorf("it learned to be right in %s of all cases: %v", accuracy[1], err)
	}
	harness.Eventually(t, within, "waiting until the parameter servers are gone", func() error {
		if left := the.pods(t, ns, "digits"); len(left) > 0 {
			return fmt.Errorf("%d pods run although it is done, the first %s", len(left), left[0].Name)
		}
		return nil
	})
}
