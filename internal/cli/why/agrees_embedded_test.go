//go:build embedded

package why_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/why"
	"github.com/muster-dev/muster/internal/controlplane/planetest"
	"github.com/muster-dev/muster/internal/departure"
	"github.com/muster-dev/muster/internal/manager"
	"github.com/muster-dev/muster/internal/scheduling"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// stage is a real API server and a manager that runs, with nodes that exist on paper.
type stage struct {
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
	s := &stage{t: t, api: api}
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
	s.kubelet()
	return s
}

// node makes a node with so many GPUs, which is ready.
func (s *stage) node(name string, gpus int64) {
	s.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		v1alpha1.LabelGPUModel: "NVIDIA-A100-SXM4-80GB", v1alpha1.LabelGPUMemory: "81920", v1alpha1.LabelOwned: "true",
	}}}
	n.Spec.Taints = []corev1.Taint{{Key: v1alpha1.TaintOwned, Effect: corev1.TaintEffectNoSchedule}}
	if err := s.api.Create(s.t.Context(), n); err != nil {
		s.t.Fatal(err)
	}
	amounts := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("64Gi"), corev1.ResourcePods: resource.MustParse("110"),
		v1alpha1.ResourceGPU: *resource.NewQuantity(gpus, resource.DecimalSI),
	}
	n.Status.Capacity, n.Status.Allocatable = amounts, amounts
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}}
	if err := s.api.Status().Update(s.t.Context(), n); err != nil {
		s.t.Fatal(err)
	}
}

// pods are the pods of a gang.
func (s *stage) pods(gang string) []corev1.Pod {
	s.t.Helper()
	var list corev1.PodList
	if err := s.api.List(s.t.Context(), &list, client.MatchingLabels{v1alpha1.LabelGang: gang}); err != nil {
		s.t.Fatal(err)
	}
	return list.Items
}

// job makes a training job of so many members with a GPU each.
func (s *stage) job(name string, members int32, edit ...func(*v1alpha1.TrainingJob)) {
	s.t.Helper()
	one := resource.MustParse("1")
	j := &v1alpha1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: v1alpha1.TrainingJobSpec{
			Checkpoints: &v1alpha1.Checkpoints{None: true},
			Environment: &v1alpha1.Environment{Image: "registry.example/train:1"},
			Roles:       []v1alpha1.Role{{Name: "w", Replicas: &members, GPUs: &one, Command: []string{"train"}}},
		},
	}
	for _, e := range edit {
		e(j)
	}
	if err := s.api.Create(s.t.Context(), j); err != nil {
		s.t.Fatal(err)
	}
}

// kubelet lets go of pods that were told to end, until the test ends.
func (s *stage) kubelet() {
	ctx, cancel := context.WithCancel(s.t.Context())
	changes, err := s.api.Watch(ctx, &corev1.PodList{})
	if err != nil {
		s.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range changes.ResultChan() {
			if p, ok := event.Object.(*corev1.Pod); ok && p.DeletionTimestamp != nil {
				_ = s.api.Delete(ctx, p, client.GracePeriodSeconds(0)) // as the test ends it may fail
			}
		}
	}()
	s.t.Cleanup(func() { cancel(); changes.Stop(); <-done })
}

// waits has a pod's container wait with a reason, as a kubelet does.
func (s *stage) waits(p *corev1.Pod, reason, message string) {
	s.t.Helper()
	after, now := p.DeepCopy(), metav1.Now()
	after.Status.Phase, after.Status.StartTime = corev1.PodPending, &now
	after.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: p.Spec.Containers[0].Name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
	}}
	if err := s.api.Status().Patch(s.t.Context(), after, client.MergeFrom(p)); err != nil {
		s.t.Fatal(err)
	}
}

// runs has all of a gang's pods run.
func (s *stage) runs(gang string) {
	s.t.Helper()
	for _, p := range s.pods(gang) {
		if p.DeletionTimestamp != nil || p.Status.Phase != corev1.PodPending {
			continue
		}
		after, now := p.DeepCopy(), metav1.Now()
		after.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &now}
		if err := client.IgnoreNotFound(s.api.Status().Patch(s.t.Context(), after, client.MergeFrom(&p))); err != nil {
			s.t.Fatal(err)
		}
	}
}

// ready sets whether a node answers.
func (s *stage) ready(node string, status corev1.ConditionStatus) {
	s.t.Helper()
	n := &corev1.Node{}
	if err := s.api.Get(s.t.Context(), client.ObjectKey{Name: node}, n); err != nil {
		s.t.Fatal(err)
	}
	after := n.DeepCopy()
	after.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now()}}
	if err := s.api.Status().Patch(s.t.Context(), after, client.MergeFrom(n)); err != nil {
		s.t.Fatal(err)
	}
}

// until waits until something holds.
func (s *stage) until(what string, holds func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); {
		if time.Now().After(deadline) {
			s.t.Fatalf("%s: not within a minute", what)
		}
		<-time.After(50 * time.Millisecond)
	}
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
	s.node("a", 2)
	s.node("b", 2)
	seed := uint64(20261128)
	w := &walk{stage: s, random: rand.New(rand.NewPCG(seed, 1))}
	for step := range 40 {
		what := w.step(step)
		s.until(fmt.Sprintf("step %d (%s): why agrees with the status of all jobs", step, what), func() bool { return w.settled(step == 39) })
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
		a, err := why.Seen(w.t.Context(), w.api, "default", j.Name)
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
		for _, p := range w.pods(j.Name) {
			if p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodPending {
				w.waits(&p, "ErrImagePull", "denied")
			}
		}
		return "an image cannot be pulled: " + j.Name
	case 2, 3:
		w.runs(j.Name)
		return "it runs: " + j.Name
	case 4:
		w.silent = !w.silent
		status := corev1.ConditionTrue
		if w.silent {
			status = corev1.ConditionUnknown
		}
		w.ready("a", status)
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
	w.job(name, 1+w.random.Int32N(3), func(j *v1alpha1.TrainingJob) {
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
