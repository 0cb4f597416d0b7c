package trainingjob

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubeflowv1 "github.com/muster-dev/muster/api/kubeflow/v1"
	"github.com/muster-dev/muster/api/v1alpha1"
)

// fates are the handling of each field of a role's template:
//
//   - kept: members have it as it is written, and the scheduler, the API server or the
//     kubelet does what it says, or refuses it in words; on one machine the node does
//     (internal/node/admission).
//   - refused: the job fails at once, and the field is named.
//   - laid over: the role or the job says the same in a field of its own, which members get.
//   - merged: members have it, and Muster adds to it.
//
// A later field of the API is in no list, and fails the test until it is decided.
var fates = map[string]string{
	"kept": `initContainers ephemeralContainers terminationGracePeriodSeconds activeDeadlineSeconds dnsPolicy nodeSelector serviceAccountName serviceAccount
		automountServiceAccountToken hostNetwork hostPID hostIPC shareProcessNamespace securityContext imagePullSecrets affinity tolerations hostAliases
		priorityClassName priority dnsConfig readinessGates runtimeClassName enableServiceLinks preemptionPolicy overhead topologySpreadConstraints
		setHostnameAsFQDN os hostUsers resources hostnameOverride evictionResponders`,
	"refused":   "nodeName schedulerName hostname subdomain resourceClaims schedulingGates schedulingGroup",
	"laid over": "restartPolicy",
	"merged":    "volumes containers",
}

// someValue sets a value to one that is not zero.
func someValue(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		someValue(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("x").Convert(v.Type().Key()), reflect.New(v.Type().Elem()).Elem())
	case reflect.String:
		v.SetString("x")
	case reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Struct: // an empty one that is there is enough
	}
}

// Each field of a pod's spec has a fate, and it is the one that is listed.
func TestEachPodFieldIsDecided(t *testing.T) {
	fate := map[string]string{}
	for which, names := range fates {
		for _, name := range strings.Fields(names) {
			if fate[name] != "" {
				t.Errorf("%s is listed twice", name)
			}
			fate[name] = which
		}
	}
	for field := range reflect.TypeFor[corev1.PodSpec]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		which := fate[name]
		delete(fate, name)
		if which == "" {
			t.Errorf("%s: decide whether a role's template may have it: see fates", name)
			continue
		}
		job := &v1alpha1.TrainingJob{Spec: v1alpha1.TrainingJobSpec{Roles: []v1alpha1.Role{{Name: "worker", Command: []string{"true"}, Template: &corev1.PodTemplateSpec{}}}}}
		job.Name = "lab"
		role := &job.Spec.Roles[0]
		set := reflect.ValueOf(&role.Template.Spec).Elem().FieldByName(field.Name)
		someValue(set)
		problem := check(job)
		if refused := strings.HasPrefix(problem, "role worker: template.spec."+name); refused != (which == "refused" || which == "laid over") || problem != "" && !refused {
			t.Errorf("%s is listed as %s: %q", name, which, problem)
		}
		made := templateFor(job, role, preparation{})
		has := reflect.ValueOf(&made.Spec).Elem().FieldByName(field.Name)
		if which == "kept" && !equality.Semantic.DeepEqual(set.Interface(), has.Interface()) {
			t.Errorf("%s is listed as kept, and members have %v instead of %v", name, has, set)
		}
	}
	for name := range fate {
		t.Errorf("PodSpec has no field %s", name)
	}
}

// The restart policy of a template counts for the role if the role has none.
func TestRestartPolicyOfATemplate(t *testing.T) {
	for _, tt := range []struct {
		role     v1alpha1.RestartPolicy
		template corev1.RestartPolicy
		want     v1alpha1.RestartPolicy
		problem  string
	}{
		{"", "", v1alpha1.RestartOnFailure, ""},
		{"", corev1.RestartPolicyNever, v1alpha1.RestartNever, ""},
		{"", corev1.RestartPolicyOnFailure, v1alpha1.RestartOnFailure, ""},
		{v1alpha1.RestartNever, corev1.RestartPolicyNever, v1alpha1.RestartNever, ""},
		{v1alpha1.RestartExitCode, "", v1alpha1.RestartExitCode, ""},
		{v1alpha1.RestartNever, corev1.RestartPolicyOnFailure, "", "template.spec.restartPolicy is OnFailure and restartPolicy Never"},
		{"", corev1.RestartPolicyAlways, "", "template.spec.restartPolicy is Always"},
	} {
		job := &v1alpha1.TrainingJob{}
		role := &v1alpha1.Role{RestartPolicy: tt.role, Template: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: tt.template}}}
		problem := checkTemplate(job, role)
		if !strings.HasPrefix(problem, tt.problem) || (problem == "") != (tt.problem == "") {
			t.Errorf("%s, %s: %q, want %q", tt.role, tt.template, problem, tt.problem)
		}
		if got := restartPolicy(job, role); problem == "" && got != tt.want {
			t.Errorf("%s, %s: %s, want %s", tt.role, tt.template, got, tt.want)
		}
	}
}

// A job that a TFJob became keeps what other operators ignore; claims are refused there as
// well.
func TestTemplatesOfKubeflow(t *testing.T) {
	yes := true
	job := &v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{APIVersion: kubeflowv1.GroupVersion.String(), Kind: kubeflowv1.KindTFJob, Controller: &yes}}}}
	role := &v1alpha1.Role{RestartPolicy: v1alpha1.RestartOnFailure, Template: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{SchedulerName: "volcano", RestartPolicy: corev1.RestartPolicyNever, Hostname: "x"}}}
	if problem := checkTemplate(job, role); problem != "" {
		t.Error(problem)
	}
	if got := restartPolicy(job, role); got != v1alpha1.RestartOnFailure {
		t.Errorf("it restarts %s", got)
	}
	role.Template.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "g"}}
	if problem := checkTemplate(job, role); !strings.Contains(problem, "ask for GPUs in gpus") {
		t.Errorf("claims: %q", problem)
	}
}
