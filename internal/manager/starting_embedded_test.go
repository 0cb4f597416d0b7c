//go:build embedded

package manager_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/why"
	"github.com/muster-dev/muster/internal/departure"
	"github.com/muster-dev/muster/internal/manager"
	"github.com/muster-dev/muster/internal/scheduling"
)

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

// awaitJob waits until a condition holds of a job.
func (s *stage) awaitJob(name, what string, holds func(*v1alpha1.TrainingJob) bool) *v1alpha1.TrainingJob {
	s.t.Helper()
	return await(s, &v1alpha1.TrainingJobList{}, what, func(j *v1alpha1.TrainingJob) bool { return j.Name == name && holds(j) })
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
	if err := s.api.Get(s.t.Context(), key(node), n); err != nil {
		s.t.Fatal(err)
	}
	after := n.DeepCopy()
	after.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now()}}
	if err := s.api.Status().Patch(s.t.Context(), after, client.MergeFrom(n)); err != nil {
		s.t.Fatal(err)
	}
}

// answer is what `muster why` says of a job.
func (s *stage) answer(job string) why.Answer {
	s.t.Helper()
	a, err := why.Seen(s.t.Context(), s.api, "default", job)
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}

// A fault that a kubelet reports, in the status of a container or in an event, is in
// the job's status and in `muster why` within two seconds.
func TestFaultIsSaidAtOnce(t *testing.T) {
	s := newStage(t)
	s.node("a", 4, true)
	s.run("one")
	mount := func(p *corev1.Pod) {
		event := &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name + ".1"}, Type: corev1.EventTypeWarning, Reason: "FailedMount",
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID},
			Message:        `MountVolume.SetUp failed for volume "v" : configmap "absent" not found`, FirstTimestamp: metav1.Now(), LastTimestamp: metav1.Now(),
		}
		if err := s.api.Create(t.Context(), event); err != nil {
			t.Fatal(err)
		}
	}
	for name, fault := range map[string]func(*corev1.Pod){
		"image": func(p *corev1.Pod) { s.waits(p, "ErrImagePull", "pull access denied") },
		"key":   func(p *corev1.Pod) { s.waits(p, "CreateContainerConfigError", "couldn't find key token") },
		"mount": mount,
	} {
		t.Run(name, func(t *testing.T) {
			s.job(name, 1)
			p := s.awaitPods(name, 1)[0]
			began := time.Now()
			fault(&p)
			j := s.awaitJob(name, "the fault is said", func(j *v1alpha1.TrainingJob) bool { return j.Status.Reason == v1alpha1.ReasonCannotStart })
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("it took %s", took)
			}
			if !strings.HasPrefix(j.Status.Message, "it is not started yet: node a reports ") {
				t.Errorf("message %q", j.Status.Message)
			}
			if a := s.answer(name); a.Code != j.Status.Reason || a.Reason != j.Status.Message || a.Tenure == nil {
				t.Errorf("why says %s: %s", a.Code, a.Reason)
			}
			if err := s.api.Delete(t.Context(), &v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}); err != nil {
				t.Fatal(err)
			}
			s.letGo(&p)
		})
	}
}

// A pod that names what is not there gets no GPU, and starts as soon as that is made.
func TestWhatIsMissingTakesNoGPU(t *testing.T) {
	s := newStage(t)
	s.node("a", 4, true)
	s.runWith("one", func(o *manager.Options) { o.Alone = true })
	template := func(spec corev1.PodSpec) func(*v1alpha1.TrainingJob) {
		return func(j *v1alpha1.TrainingJob) {
			j.Spec.Roles[0].Template = &corev1.PodTemplateSpec{Spec: spec}
		}
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "classless"}, Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: new("absent"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}}
	if err := s.api.Create(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	volume := func(source corev1.VolumeSource) corev1.PodSpec {
		return corev1.PodSpec{Volumes: []corev1.Volume{{Name: "v", VolumeSource: source}}}
	}
	for name, tt := range map[string]struct {
		spec corev1.PodSpec
		want string
	}{
		"secret": {volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "later"}}), "it names the Secret later, which is not there"},
		"claim":  {volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "absent"}}), "it names the claim absent, which is not there"},
		"class":  {volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "classless"}}), "its claim classless has no volume"},
	} {
		s.job(name, 1, template(tt.spec))
		j := s.awaitJob(name, "what is missing is said", func(j *v1alpha1.TrainingJob) bool { return j.Status.Reason == v1alpha1.ReasonMissing })
		if a := s.answer(name); !strings.HasPrefix(j.Status.Message, tt.want) || a.Code != v1alpha1.ReasonMissing || a.Reason != j.Status.Message {
			t.Errorf("status %q; why %s: %q", j.Status.Message, a.Code, a.Reason)
		}
		if pods := s.pods(name); len(pods) != 0 {
			t.Errorf("%s: %d pods were made", name, len(pods))
		}
	}
	later := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "later"}}
	if err := s.api.Create(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	s.awaitPods("secret", 1)
}

// A node that does not answer is named; members that it never took are placed
// elsewhere after a minute, and the GPUs of the others come free with them.
func TestNodeThatDoesNotAnswer(t *testing.T) {
	s := newStage(t)
	s.node("a", 1, true)
	s.node("b", 1, true)
	s.run("one")
	s.job("train", 2)
	pods := s.awaitPods("train", 2)
	for i := range pods {
		if pods[i].Spec.NodeName == "a" {
			s.waits(&pods[i], "ContainerCreating", "")
		}
	}
	s.ready("b", corev1.ConditionUnknown)
	j := s.awaitJob("train", "the node is named", func(j *v1alpha1.TrainingJob) bool { return j.Status.Reason == v1alpha1.ReasonNodeUnreachable })
	if a := s.answer("train"); !strings.HasPrefix(j.Status.Message, "it waits for node b, which has not answered since ") || a.Reason != j.Status.Message {
		t.Errorf("status %q, why %q", j.Status.Message, a.Reason)
	}
	var events corev1.EventList
	s.until("an event names it", func() bool {
		if err := s.api.List(t.Context(), &events, client.InNamespace("default")); err != nil {
			t.Fatal(err)
		}
		for i := range events.Items {
			if e := &events.Items[i]; e.InvolvedObject.Name == "train" && e.Reason == v1alpha1.ReasonNodeUnreachable {
				return true
			}
		}
		return false
	})
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

// agrees reports whether `muster why` says the same of a job as its status.
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

// Whatever happens to jobs, nodes, and what they name: once things have settled,
// `muster why` gives the reason that the status gives.
func TestWhyAgreesWithTheStatus(t *testing.T) {
	s := newStage(t)
	s.node("a", 2, true)
	s.node("b", 2, true)
	s.runWith("one", func(o *manager.Options) { o.Alone = true })
	s.kubelet()
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

// walk does one thing after another to a stage.
type walk struct {
	*stage
	random *rand.Rand
	silent bool
	// drained is the node that is; empty: none.
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

// step does one thing, and says what.
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
		// Whatever keeps all jobs from starting does not last.
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

// submit makes a job, most often one that names what is not there.
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
	if err := w.api.Get(w.t.Context(), key(name), n); err != nil {
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
