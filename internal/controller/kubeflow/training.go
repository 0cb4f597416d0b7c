package kubeflow

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubeflowv1 "github.com/muster-dev/muster/api/kubeflow/v1"
	"github.com/muster-dev/muster/api/v1alpha1"
)

// AnnotationSpec is, on a TrainingJob, a fingerprint of the spec that its owner
// asked for last. What somebody changes in the TrainingJob itself, such as
// suspend, stands until the owner asks for something else.
const AnnotationSpec = "muster.dev/kubeflow-spec"

// defaultBackoffLimit is how many failures are restarted where a job does not
// say. The training operator would go on for ever.
const defaultBackoffLimit = 6

// trainingJob is what the job becomes.
func (j *job) trainingJob() *v1alpha1.TrainingJob {
	out := &v1alpha1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: j.Namespace, Name: j.Name, Labels: map[string]string{},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(j, j.door.gvk())},
		},
		Spec: j.spec(),
	}
	for key, value := range j.Labels {
		if !strings.HasPrefix(key, "muster.dev/") {
			out.Labels[key] = value
		}
	}
	out.Labels[kubeflowv1.LabelJobName] = j.Name // by which it is told from jobs that somebody wrote
	out.Annotations = map[string]string{AnnotationSpec: fingerprint(out.Spec)}
	for _, key := range []string{v1alpha1.AnnotationSubmitter, v1alpha1.AnnotationAuthenticated} {
		if said := j.Annotations[key]; said != "" {
			out.Annotations[key] = said
		}
	}
	return out
}

// fingerprint tells one spec from another.
func fingerprint(spec v1alpha1.TrainingJobSpec) string {
	data, err := json.Marshal(spec)
	if err != nil {
		return "" // API types can always be encoded
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

func (j *job) spec() v1alpha1.TrainingJobSpec {
	backoff := int32(defaultBackoffLimit)
	if j.policy.BackoffLimit != nil {
		backoff = *j.policy.BackoffLimit
	}
	out := v1alpha1.TrainingJobSpec{
		Framework: j.framework(), DoneWhen: j.doneWhen(), CleanUp: j.cleanUp(), SparseCluster: j.sparse,
		Checkpoints: &v1alpha1.Checkpoints{None: true},
		Queue:       j.queue(), Suspend: j.policy.Suspend != nil && *j.policy.Suspend,
		BackoffLimit: &backoff, ActiveDeadlineSeconds: j.policy.ActiveDeadlineSeconds,
	}
	if p := j.policy.SchedulingPolicy; p != nil {
		out.PriorityClassName = p.PriorityClass
	}
	for _, r := range j.replicas {
		out.Roles = append(out.Roles, j.role(r))
	}
	return out
}

// framework is none for a TFJob of one replica: that is training on one
// machine, for which the training operator writes no TF_CONFIG either.
func (j *job) framework() v1alpha1.Framework {
	if j.door.framework == v1alpha1.FrameworkTensorFlow && j.members() == 1 {
		return v1alpha1.FrameworkNone
	}
	return j.door.framework
}

// doneWhen is the success policy: chief or master; without one, all workers of
// a PyTorchJob, and of a TFJob worker 0 or, if it says so, all of them.
func (j *job) doneWhen() []string {
	if leader, ok := j.leader(); ok {
		return []string{leader.role()}
	}
	worker, ok := j.replica(kubeflowv1.ReplicaWorker)
	switch {
	case !ok:
		return nil
	case j.door.kind == kubeflowv1.KindTFJob && (j.success == nil || *j.success != kubeflowv1.SuccessAllWorkers):
		return []string{worker.role() + "/0"}
	}
	return []string{worker.role()}
}

// cleanUp is what the job says, and where it does not: parameter servers are
// stopped and GPUs are free.
func (j *job) cleanUp() v1alpha1.CleanUp {
	if p := j.policy.CleanPodPolicy; p != nil {
		switch *p {
		case kubeflowv1.CleanPodAll:
			return v1alpha1.CleanUpAll
		case kubeflowv1.CleanPodNone:
			return v1alpha1.CleanUpNone
		}
	}
	return v1alpha1.CleanUpRunning
}

// queue is the first that is named by the labels and the scheduling policy.
func (j *job) queue() string {
	named := cmp.Or(j.Labels[kubeflowv1.LabelQueue], j.Labels[kubeflowv1.LabelKueueQueue])
	if p := j.policy.SchedulingPolicy; p != nil && named == "" {
		named = p.Queue
	}
	return named
}

// restartPolicy is when members are started again. One that succeeded never
// is, also with Always, which would keep the job from ever ending.
func (j *job) restartPolicy(r replica) v1alpha1.RestartPolicy {
	switch cmp.Or(r.spec.RestartPolicy, j.door.restart) {
	case kubeflowv1.RestartNever:
		return v1alpha1.RestartNever
	case kubeflowv1.RestartExitCode:
		return v1alpha1.RestartExitCode
	}
	return v1alpha1.RestartOnFailure
}

func (j *job) role(r replica) v1alpha1.Role {
	out := v1alpha1.Role{
		Name: r.role(), Replicas: &r.count, RestartPolicy: j.restartPolicy(r),
		PortName: j.door.portName, IndexLabels: []string{kubeflowv1.LabelReplicaIndex},
		Template: j.template(r),
	}
	leader, led := j.leader()
	if led && leader.kind == r.kind || !led && r.kind == kubeflowv1.ReplicaWorker && j.door.kind == kubeflowv1.KindTFJob {
		out.FirstLabels = map[string]string{kubeflowv1.LabelJobRole: "master"}
	}
	return out
}

// labels are those of everything of one replica type.
func (j *job) labels(r replica) map[string]string {
	return map[string]string{
		kubeflowv1.LabelJobName: j.Name, kubeflowv1.LabelOperatorName: j.door.operator, kubeflowv1.LabelReplicaType: r.role(),
	}
}

// template is the pod of a replica type: that of the job, with the container
// that trains first, its port declared, and the labels that people select by.
func (j *job) template(r replica) *corev1.PodTemplateSpec {
	t := r.spec.Template.DeepCopy()
	t.ObjectMeta = metav1.ObjectMeta{Labels: t.Labels, Annotations: t.Annotations}
	if t.Labels == nil {
		t.Labels = map[string]string{}
	}
	maps.Copy(t.Labels, j.labels(r))
	s := &t.Spec
	if i := slices.IndexFunc(s.Containers, func(c corev1.Container) bool { return c.Name == j.door.container }); i > 0 {
		main := s.Containers[i]
		s.Containers = slices.Insert(slices.Delete(s.Containers, i, i+1), 0, main)
	}
	main := &s.Containers[0]
	if !slices.ContainsFunc(main.Ports, func(p corev1.ContainerPort) bool { return p.Name == j.door.portName }) {
		main.Ports = append(main.Ports, corev1.ContainerPort{Name: j.door.portName, ContainerPort: j.door.port})
	}
	if s.EnableServiceLinks == nil {
		yes := true
		s.EnableServiceLinks = &yes // as in any other pod
	}
	if s.AutomountServiceAccountToken == nil && s.ServiceAccountName != "" {
		yes := true
		s.AutomountServiceAccountToken = &yes // who names an account wants to be it
	}
	vars := j.variables()
	for i := range s.Containers {
		s.Containers[i].Env = under(vars, s.Containers[i].Env)
	}
	return t
}

// under puts variables before a container's own, which win.
func under(vars, own []corev1.EnvVar) []corev1.EnvVar {
	out := slices.DeleteFunc(slices.Clone(vars), func(v corev1.EnvVar) bool {
		return slices.ContainsFunc(own, func(o corev1.EnvVar) bool { return o.Name == v.Name })
	})
	return append(out, own...)
}

// service is the headless Service by whose name one replica is found:
// <job>-<type>-<index>.
func (j *job) service(r replica, index int32) *corev1.Service {
	n := fmt.Sprint(index)
	labels := j.labels(r)
	labels[kubeflowv1.LabelReplicaIndex] = n
	port := j.door.port
	for _, c := range r.spec.Template.Spec.Containers {
		for _, p := range c.Ports {
			if c.Name == j.door.container && p.Name == j.door.portName {
				port = p.ContainerPort
			}
		}
	}
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: j.Namespace, Name: j.Name + "-" + r.role() + "-" + n, Labels: labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(j, j.door.gvk())},
		},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: true, // they look for one another while they start
			Selector: map[string]string{v1alpha1.LabelGang: j.Name, v1alpha1.LabelRole: r.role(), v1alpha1.LabelIndex: n},
			Ports:    []corev1.ServicePort{{Name: j.door.portName, Port: port}},
		},
	}
}
