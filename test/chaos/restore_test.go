//go:build chaos

package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// TestRestore takes the control plane back to an earlier moment under gangs that
// run, as docs/kubernetes.md says: nothing runs afterwards that no object knows,
// what ran at that moment is started again as a whole, what ended since ends again,
// and at no time has a device two users.
func TestRestore(t *testing.T) {
	w := newWorld(t, uint64(time.Now().UnixNano()))
	looks := w.observe()
	submit := func(name string) *v1alpha1.TrainingJob {
		t.Helper()
		job := w.waiting(name)
		w.must(w.api.Create(t.Context(), job))
		return job
	}
	stays, ends := submit("stays"), submit("ends")
	w.phase(stays, v1alpha1.JobRunning)
	w.phase(ends, v1alpha1.JobRunning)
	kept := filepath.Join(t.TempDir(), "etcd")
	w.backup(kept)
	// Since then a job has ended, and others have got what it had.
	w.letGo(ends)
	w.phase(ends, v1alpha1.JobSucceeded)
	later := []*v1alpha1.TrainingJob{submit("later-0"), submit("later-1"), submit("later-2")}
	for _, job := range later {
		w.phase(job, v1alpha1.JobRunning)
	}
	w.restore(kept)
	for _, job := range later {
		if err := w.api.Get(t.Context(), client.ObjectKeyFromObject(job), job); !apierrors.IsNotFound(err) {
			t.Errorf("%s was submitted after the backup, and reading it gives %v", job.Name, err)
		}
	}
	// Who comes now gets what nobody has.
	next := []*v1alpha1.TrainingJob{submit("next-0"), submit("next-1")}
	for _, job := range next {
		w.phase(job, v1alpha1.JobRunning)
	}
	w.phase(ends, v1alpha1.JobSucceeded)
	w.phase(stays, v1alpha1.JobRunning)
	w.settle()
	for _, job := range append(next, stays) {
		w.letGo(job)
		w.phase(job, v1alpha1.JobSucceeded)
	}
	for _, job := range append(next, stays, ends) {
		w.must(w.delete(job.Name))
		w.doomed[job.Name] = true
	}
	looks()
	w.nothingLeft()
	w.allAtOnce()
	t.Logf("%d looks, settled within %.1f s; what ran was restarted %d times", w.looks, w.longest.Seconds(), stays.Status.Restarts)
	t.Logf("observed: 0 partial gangs after settling, %d double grants, 0 leaks", len(w.doubles))
}

// waiting is a gang whose workers run until it is let go.
func (w *world) waiting(name string) *v1alpha1.TrainingJob {
	job := w.gang(name)
	job.Spec.Roles[0].Command = []string{"sh", "-c", fmt.Sprintf(`until [ -e "$BOOK/%s.go" ]; do sleep 0.1; done`, name)}
	job.Spec.Roles[1].Command = []string{"sleep", "1000"}
	return job
}

// backup copies etcd's files, which may be copied while it does not run.
func (w *world) backup(to string) {
	w.Helper()
	w.must(w.cluster.Kill(w.Context(), "etcd"))
	w.copy(w.cluster.EtcdFolder(), to)
	w.must(w.cluster.Restart(w.Context(), "etcd"))
}

func (w *world) copy(from, to string) {
	w.Helper()
	w.must(os.RemoveAll(to))
	if said, err := exec.CommandContext(w.Context(), "cp", "-a", from, to).CombinedOutput(); err != nil {
		w.Fatalf("copying %s: %v: %s", from, err, said)
	}
}

// restore is what docs/kubernetes.md says, step by step.
func (w *world) restore(kept string) {
	w.Helper()
	// 1. Nobody can change anything any more.
	w.must(w.cluster.Kill(w.Context(), "kube-apiserver"))
	// 2. The pods of all nodes with GPUs are ended, and so are the managers: the
	// nodes are restarted, which here takes their processes.
	for _, p := range managers() {
		_ = unix.Kill(p.PID, unix.SIGKILL)
	}
	harness.Eventually(w, patience, "waiting until no member runs", func() error {
		left := members(w.token)
		for _, all := range left {
			for _, p := range all {
				_ = unix.Kill(p.PID, unix.SIGKILL)
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("%d run", len(left))
		}
		return nil
	})
	// 3. etcd as it was, and the API server.
	w.must(w.cluster.Kill(w.Context(), "etcd"))
	w.copy(kept, w.cluster.EtcdFolder())
	w.must(w.cluster.Restart(w.Context(), "etcd"))
	w.must(w.cluster.Restart(w.Context(), "kube-apiserver"))
	// It is ready before its policies know the kinds that were added to it, and
	// refuses those until then.
	harness.Eventually(w, patience, "waiting until the API server takes jobs", func() error {
		return w.api.Create(w.Context(), w.waiting("nobody"), client.DryRunAll)
	})
	// 4. Everybody who remembers what was later.
	names := []string{"kube-controller-manager", "kube-scheduler"}
	for _, node := range w.cluster.Nodes {
		names = append(names, node.Name+"/kubelet")
	}
	for _, name := range names {
		w.must(w.cluster.Restart(w.Context(), name))
	}
	for _, p := range managers() { // of whom a kubelet may have started one since
		_ = unix.Kill(p.PID, unix.SIGKILL)
	}
}
