package trainingjob

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubeflowv1 "github.com/muster-dev/muster/api/kubeflow/v1"
	"github.com/muster-dev/muster/api/v1alpha1"
)

// checkTemplate finds fields of a role's template that no member could have: Muster sets them
// itself, or has another way for them. TestEachPodFieldIsDecided lists the handling of all other
// fields. TFJobs and PyTorchJobs name some in the condition about fields without effect instead:
// other operators ignore them, too.
func checkTemplate(job *v1alpha1.TrainingJob, role *v1alpha1.Role) string {
	t := role.Template
	if t == nil {
		return ""
	}
	problem := cmp.Or(checkDevices(&t.Spec), checkMeta(&t.ObjectMeta))
	if problem != "" || ofKubeflow(job) {
		return problem
	}
	return cmp.Or(checkPlaces(&t.Spec), checkRestart(role))
}

// ofKubeflow reports whether a TFJob or PyTorchJob became the job.
func ofKubeflow(job *v1alpha1.TrainingJob) bool {
	owner := metav1.GetControllerOfNoCopy(job)
	return owner != nil && (owner.Kind == kubeflowv1.KindTFJob || owner.Kind == kubeflowv1.KindPyTorchJob)
}

// checkDevices finds devices and scheduling that only kube-scheduler gives.
func checkDevices(s *corev1.PodSpec) string {
	const at = "template.spec."
	switch {
	case len(s.ResourceClaims) > 0:
		return at + "resourceClaims: Muster gives out devices by its own claims; leave it out, and ask for GPUs in gpus"
	case len(s.SchedulingGates) > 0:
		return at + "schedulingGates: members are made once they have their places; leave it out, and hold the job back with suspend: true"
	case s.SchedulingGroup != nil:
		return at + "schedulingGroup: the members of a job are placed together already; leave it out"
	}
	return ""
}

// checkMeta finds metadata that members do not get.
func checkMeta(m *metav1.ObjectMeta) string {
	switch {
	case len(m.Finalizers) > 0:
		return "template.metadata.finalizers: Muster removes members when they end; leave it out"
	case len(m.OwnerReferences) > 0:
		return "template.metadata.ownerReferences: members belong to their job; leave it out"
	}
	return ""
}

// checkPlaces finds fields that Muster sets itself: the places and the names of members.
func checkPlaces(s *corev1.PodSpec) string {
	const at = "template.spec."
	switch {
	case s.NodeName != "":
		return fmt.Sprintf("%snodeName: Muster chooses the nodes; leave it out, or use nodeSelector with kubernetes.io/hostname: %s", at, s.NodeName)
	case s.SchedulerName != "" && s.SchedulerName != v1alpha1.SchedulerName:
		return fmt.Sprintf("%sschedulerName is %s: Muster places all members of a job together; leave it out", at, s.SchedulerName)
	case s.Hostname != "":
		return at + "hostname: Muster names members, so that they find one another; leave it out"
	case s.Subdomain != "":
		return at + "subdomain: Muster names members, so that they find one another; leave it out"
	}
	return ""
}

// checkRestart finds a restart policy in the template that is not the role's.
func checkRestart(role *v1alpha1.Role) string {
	const field = "template.spec.restartPolicy"
	said := role.Template.Spec.RestartPolicy
	switch {
	case said == "":
		return ""
	case said != corev1.RestartPolicyNever && said != corev1.RestartPolicyOnFailure:
		return fmt.Sprintf("%s is %s: a member that has succeeded is not started again; give OnFailure or Never", field, said)
	case role.RestartPolicy != "" && string(role.RestartPolicy) != string(said):
		return fmt.Sprintf("%s is %s and restartPolicy %s; leave out the one in the template", field, said, role.RestartPolicy)
	}
	return ""
}

// restartPolicy returns the restart policy of a role, or else that of its template.
func restartPolicy(job *v1alpha1.TrainingJob, role *v1alpha1.Role) v1alpha1.RestartPolicy {
	if role.RestartPolicy == "" && !ofKubeflow(job) && role.Template != nil && role.Template.Spec.RestartPolicy == corev1.RestartPolicyNever {
		return v1alpha1.RestartNever
	}
	return cmp.Or(role.RestartPolicy, v1alpha1.RestartOnFailure)
}
