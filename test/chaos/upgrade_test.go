//go:build chaos

package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// TestUpgrade changes to another version of the manager and back while one job
// runs and another waits for its GPUs. Neither notices.
func TestUpgrade(t *testing.T) {
	w := newWorld(t, uint64(time.Now().UnixNano()))
	for _, version := range []string{"v2", "v1"} {
		runs, waits := w.held("runs-through-"+version), w.held("waits-through-"+version)
		w.must(w.api.Create(t.Context(), runs))
		w.phase(runs, v1alpha1.JobRunning)
		w.must(w.api.Create(t.Context(), waits))
		w.phase(waits, v1alpha1.JobWaiting)
		before := w.members(runs)

		// It returns when the change is over: nothing of the other version is left.
		w.install(version)
		if images := w.images(); len(images) != 1 || images["muster.test/muster:"+version] != 2 {
			t.Errorf("managers of %v are there, want two of %s alone", images, version)
		}
		w.phase(runs, v1alpha1.JobRunning)
		for name, uid := range w.members(runs) {
			if before[name] != uid {
				t.Errorf("%s is another pod since the change to %s", name, version)
			}
		}
		w.letGo(runs)
		w.letGo(waits)
		w.phase(runs, v1alpha1.JobSucceeded)
		w.phase(waits, v1alpha1.JobSucceeded)
		for _, job := range []*v1alpha1.TrainingJob{runs, waits} {
			if job.Status.Restarts != 0 {
				t.Errorf("%s was restarted %d times", job.Name, job.Status.Restarts)
			}
		}
	}
}

// held is a job on every GPU that runs until it is let go.
func (w *world) held(name string) *v1alpha1.TrainingJob {
	job := w.gang(name)
	n := int32(gpus)
	job.Spec.Roles = job.Spec.Roles[:1]
	job.Spec.Roles[0].Replicas = &n
	job.Spec.Roles[0].Command = []string{"sh", "-c", fmt.Sprintf(`until [ -e "$BOOK/%s.go" ]; do sleep 0.1; done`, name)}
	return job
}

func (w *world) letGo(job *v1alpha1.TrainingJob) {
	w.Helper()
	w.must(os.WriteFile(filepath.Join(w.book, job.Name+".go"), nil, 0o600))
}

// phase waits until a job has one.
func (w *world) phase(job *v1alpha1.TrainingJob, want v1alpha1.JobPhase) {
	w.Helper()
	harness.Eventually(w, patience, "waiting until "+job.Name+" is "+string(want), func() error {
		if err := w.api.Get(w.Context(), client.ObjectKeyFromObject(job), job); err != nil {
			return err
		}
		if job.Status.Phase != want {
			return fmt.Errorf("it is %s: %s", job.Status.Phase, job.Status.Message)
		}
		return nil
	})
}

// members are the pods of a job.
func (w *world) members(job *v1alpha1.TrainingJob) map[string]types.UID {
	w.Helper()
	pods := &corev1.PodList{}
	w.must(w.api.List(w.Context(), pods, client.InNamespace(w.ns), client.MatchingLabels{v1alpha1.LabelJob: job.Name}))
	out := map[string]types.UID{}
	for _, pod := range pods.Items {
		out[pod.Name] = pod.UID
	}
	return out
}

// images counts the managers by their image, those that are being stopped, too.
func (w *world) images() map[string]int {
	w.Helper()
	pods := &corev1.PodList{}
	w.must(w.api.List(w.Context(), pods, client.InNamespace(v1alpha1.SystemNamespace)))
	out := map[string]int{}
	for _, pod := range pods.Items {
		if pod.Status.Phase == corev1.PodRunning {
			out[pod.Spec.Containers[0].Image]++
		}
	}
	return out
}
