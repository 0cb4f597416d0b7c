//go:build embedded

package manager_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/manager"
)

// awaitJob waits until a condition holds of a job.
func (s *stage) awaitJob(name, what string, holds func(*v1alpha1.TrainingJob) bool) *v1alpha1.TrainingJob {
	s.t.Helper()
	return await(s, &v1alpha1.TrainingJobList{}, what, func(j *v1alpha1.TrainingJob) bool { return j.Name == name && holds(j) })
}

// A fault that a kubelet reports, in the status of a container or in an event, is in
// the job's status within two seconds.
func TestFaultIsSaidAtOnce(t *testing.T) {
	s := newStage(t)
	s.Node("a", 4, true)
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
		"image": func(p *corev1.Pod) { s.Wait(p, "ErrImagePull", "pull access denied") },
		"key":   func(p *corev1.Pod) { s.Wait(p, "CreateContainerConfigError", "couldn't find key token") },
		"mount": mount,
	} {
		t.Run(name, func(t *testing.T) {
			s.Job(name, 1)
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
			if err := s.api.Delete(t.Context(), &v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}); err != nil {
				t.Fatal(err)
			}
			s.letGo(&p)
		})
	}
}

// A pod that names a missing object gets no GPU, and starts as soon as that is made.
func TestWhatIsMissingTakesNoGPU(t *testing.T) {
	s := newStage(t)
	s.Node("a", 4, true)
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
		s.Job(name, 1, template(tt.spec))
		j := s.awaitJob(name, "what is missing is said", func(j *v1alpha1.TrainingJob) bool { return j.Status.Reason == v1alpha1.ReasonMissing })
		if !strings.HasPrefix(j.Status.Message, tt.want) {
			t.Errorf("status %q", j.Status.Message)
		}
		if pods := s.Pods(name); len(pods) != 0 {
			t.Errorf("%s: %d pods were made", name, len(pods))
		}
	}
	later := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "later"}}
	if err := s.api.Create(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	s.awaitPods("secret", 1)
}

// The status and an event name a node that does not answer.
func TestNodeThatDoesNotAnswer(t *testing.T) {
	s := newStage(t)
	s.Node("a", 1, true)
	s.Node("b", 1, true)
	s.run("one")
	s.Job("train", 2)
	pods := s.awaitPods("train", 2)
	for i := range pods {
		if pods[i].Spec.NodeName == "a" {
			s.Wait(&pods[i], "ContainerCreating", "")
		}
	}
	s.SetReady("b", corev1.ConditionUnknown)
	j := s.awaitJob("train", "the node is named", func(j *v1alpha1.TrainingJob) bool { return j.Status.Reason == v1alpha1.ReasonNodeUnreachable })
	if !strings.HasPrefix(j.Status.Message, "it waits for node b, which has not answered since ") {
		t.Errorf("status %q", j.Status.Message)
	}
	var events corev1.EventList
	s.Eventually("an event names it", func() bool {
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
