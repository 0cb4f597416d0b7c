//go:build embedded

package why_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/why"
	"github.com/muster-dev/muster/internal/controlplane/planetest"
	"github.com/muster-dev/muster/internal/departure"
	"github.com/muster-dev/muster/internal/manager"
	"github.com/muster-dev/muster/internal/nodetest"
	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/visibility"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// stage is a real API server with simulated nodes, and a manager that runs.
type stage struct {
	*nodetest.Cluster
	t   *testing.T
	api client.WithWatch
}

func newStage(t *testing.T) *stage {
	t.Helper()
	plane := planetest.Start(t)
	scheme, err := manager.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	api, err := client.NewWithWatch(plane.RESTConfig(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{Cluster: nodetest.New(t, api), t: t, api: api}
	m, err := manager.New(manager.Options{REST: plane.RESTConfig(), Identity: "one", Alone: true, SeveralHere: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the manager: %v", err)
		}
	})
	s.Kubelet(false)
	return s
}

// agrees reports whether `muster why` has the same reason for a job as its status.
func agrees(a why.Answer, j *v1alpha1.TrainingJob) bool {
	switch scheduling.Code(a.Code) {
	case scheduling.CodeCoolingOff:
		return v1alpha1.EndsAttempt(j.Status.Reason) && strings.HasPrefix(a.Reason, j.Status.Message) || j.Status.Reason == a.Code
	case scheduling.CodePlaced:
		return j.Status.Reason == "" && (j.Status.Phase == v1alpha1.JobStarting || j.Status.Phase == v1alpha1.JobRunning)
	case scheduling.CodeFits:
		return false
	}
	return a.Code == j.Status.Reason
}

// Whatever happens to jobs, to nodes and to the objects that jobs name: once all has settled,
// `muster why` gives the reason that the status gives.
func TestWhyAgreesWithTheStatus(t *testing.T) {
	s := newStage(t)
	s.Node("a", 2, true)
	s.Node("b", 2, true)
	seed := uint64(20261128)
	w := &walk{stage: s, random: rand.New(rand.NewPCG(seed, 1))}
	for step := range 40 {
		what := w.step(step)
		s.Eventually(fmt.Sprintf("step %d (%s): why agrees with the status of all jobs", step, what), func() bool { return w.settled(step == 39) })
	}
	for phase, n := range w.seen {
		t.Logf("%s: %d", phase, n)
	}
	if len(w.seen) < 6 {
		t.Errorf("only %d kinds of reasons were seen", len(w.seen))
	}
}

// walk makes one change after another to a stage.
type walk struct {
	*stage
	random *rand.Rand
	silent bool
	// drained is the node that is drained; empty: none.
	drained string
	seen    map[string]int
}

func (w *walk) jobs() []v1alpha1.TrainingJob {
	w.t.Helper()
	var list v1alpha1.TrainingJobList
	if err := w.api.List(w.t.Context(), &list, client.InNamespace("default")); err != nil {
		w.t.Fatal(err)
	}
	return list.Items
}

// settled reports whether why agrees with the status of every job.
func (w *walk) settled(loud bool) bool {
	w.t.Helper()
	ok := true
	for i, j := range w.jobs() {
		if j.DeletionTimestamp != nil {
			continue
		}
		a, err := why.Seen(w.t.Context(), w.api, visibility.Rule{Own: "default"}, nil, "default", j.Name)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			w.t.Fatal(err)
		}
		now := &v1alpha1.TrainingJob{}
		if err := w.api.Get(w.t.Context(), client.ObjectKeyFromObject(&j), now); err != nil || now.ResourceVersion != w.jobs()[i].ResourceVersion {
			return false
		}
		if !agrees(a, now) {
			ok = false
			if loud {
				w.t.Logf("%s %s: status %s %q, why %s %q", j.Name, now.Status.Phase, now.Status.Reason, now.Status.Message, a.Code, a.Reason)
			}
			continue
		}
		if w.seen == nil {
			w.seen = map[string]int{}
		}
		w.seen[string(now.Status.Phase)+" "+now.Status.Reason]++
	}
	return ok
}

// step makes one change, and returns its description.
func (w *walk) step(n int) string {
	w.t.Helper()
	jobs := w.jobs()
	if len(jobs) < 3 || w.random.IntN(4) == 0 && len(jobs) < 8 {
		return w.submit(fmt.Sprintf("job-%d", n))
	}
	j := &jobs[w.random.IntN(len(jobs))]
	node := []string{"a", "b"}[w.random.IntN(2)]
	for i := range jobs {
		if jobs[i].Status.Phase == v1alpha1.JobStarting && w.random.IntN(2) == 0 {
			j = &jobs[i]
		}
	}
	if w.drained != "" || j.Spec.Suspend {
		// A change that keeps all jobs from starting does not last.
		return w.undo(j)
	}
	switch w.random.IntN(9) {
	case 0, 1:
		for _, p := range w.Pods(j.Name) {
			if p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodPending {
				w.Wait(&p, "ErrImagePull", "denied")
			}
		}
		return "an image cannot be pulled: " + j.Name
	case 2, 3:
		w.Run(j.Name)
		return "it runs: " + j.Name
	case 4:
		w.silent = !w.silent
		status := corev1.ConditionTrue
		if w.silent {
			status = corev1.ConditionUnknown
		}
		w.SetReady("a", status)
		return "node a: ready: " + string(status)
	case 5:
		return w.suspend(j)
	case 6:
		w.drained = node
		return w.drain(node)
	}
	if err := client.IgnoreNotFound(w.api.Delete(w.t.Context(), j)); err != nil {
		w.t.Fatal(err)
	}
	return "it is deleted: " + j.Name
}

func (w *walk) suspend(j *v1alpha1.TrainingJob) string {
	w.t.Helper()
	after := j.DeepCopy()
	after.Spec.Suspend = !j.Spec.Suspend
	if err := w.api.Patch(w.t.Context(), after, client.MergeFrom(j)); err != nil {
		w.t.Fatal(err)
	}
	return fmt.Sprintf("suspend: %t: %s", after.Spec.Suspend, j.Name)
}

// undo resumes a job, or takes back the order to drain a node.
func (w *walk) undo(j *v1alpha1.TrainingJob) string {
	w.t.Helper()
	if j.Spec.Suspend {
		return w.suspend(j)
	}
	node := w.drained
	w.drained = ""
	return w.drain(node)
}

// submit makes a job, most often one that names a missing object.
func (w *walk) submit(name string) string {
	w.t.Helper()
	what := "all is there"
	w.Job(name, 1+w.random.Int32N(3), func(j *v1alpha1.TrainingJob) {
		spec := corev1.PodSpec{}
		switch w.random.IntN(7) {
		case 0:
			what, j.Spec.Queue = "no such queue", "absent"
		case 1:
			what, j.Spec.PriorityClassName = "no such class", "absent"
		case 2:
			what, spec.ServiceAccountName = "no such account", "absent"
		case 3:
			what, spec.Volumes = "no such claim", []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "absent"}}}}
		default:
			return
		}
		j.Spec.Roles[0].Template = &corev1.PodTemplateSpec{Spec: spec}
	})
	return what + ": " + name
}

// drain orders a node to be drained, or takes the order back.
func (w *walk) drain(name string) string {
	w.t.Helper()
	n := &corev1.Node{}
	if err := w.api.Get(w.t.Context(), client.ObjectKey{Name: name}, n); err != nil {
		w.t.Fatal(err)
	}
	after := n.DeepCopy()
	_, drained := departure.Ordered(n)
	if drained {
		departure.Withdraw(after)
	} else {
		departure.Order(after, 0)
	}
	if err := w.api.Patch(w.t.Context(), after, client.MergeFrom(n)); err != nil {
		w.t.Fatal(err)
	}
	return fmt.Sprintf("drained: %t: %s", !drained, name)
}
