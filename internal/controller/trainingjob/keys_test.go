package trainingjob

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// TestReservedKeys gives members Muster's own labels and annotations in each field where a
// job can have some: the job is refused by the field's name, and no template has them.
func TestReservedKeys(t *testing.T) {
	template := func(r *v1alpha1.Role) *corev1.PodTemplateSpec {
		r.Template = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}}}
		return r.Template
	}
	for field, set := range map[string]func(r *v1alpha1.Role, key string){
		"firstLabels":                   func(r *v1alpha1.Role, key string) { r.FirstLabels = map[string]string{key: "x"} },
		"indexLabels":                   func(r *v1alpha1.Role, key string) { r.IndexLabels = []string{key} },
		"template.metadata.labels":      func(r *v1alpha1.Role, key string) { template(r).Labels = map[string]string{key: "x"} },
		"template.metadata.annotations": func(r *v1alpha1.Role, key string) { template(r).Annotations = map[string]string{key: "x"} },
	} {
		for key, refused := range map[string]bool{
			"muster.dev/build": true, "muster.dev/gang": true, "muster.dev/gpus": true, "a.muster.dev/b": true,
			"example.com/part": false, "part": false, "notmuster.dev/part": false, "muster.dev.example.com/part": false,
		} {
			job := &v1alpha1.TrainingJob{Spec: v1alpha1.TrainingJobSpec{Roles: []v1alpha1.Role{{Name: "worker", Command: []string{"true"}}}}}
			job.Name = "lab"
			role := &job.Spec.Roles[0]
			set(role, key)
			problem := check(job)
			if got := strings.Contains(problem, "role worker: "+field+": Muster itself sets "+key); got != refused || !refused && problem != "" {
				t.Errorf("%s %s: %q", field, key, problem)
			}
			made := templateFor(job, role, preparation{})
			for _, keys := range []map[string]string{made.Labels, made.Annotations} {
				if _, has := keys[key]; has && refused {
					t.Errorf("%s %s: the members' template has it", field, key)
				}
			}
		}
	}
}

// TestFirstLabels gives the first member labels that the API server refuses in pods.
func TestFirstLabels(t *testing.T) {
	for says, labels := range map[string]map[string]string{
		"":                                  {"example.com/part": "leader", "part": ""},
		`firstLabels: "a b" is no key`:      {"a b": "x"},
		`firstLabels: "x y" is no value of`: {"part": "x y"},
		`firstLabels: "/part" is no key`:    {"/part": "x"},
	} {
		got := checkFirstLabels(labels)
		if !strings.Contains(got, says) || (says == "") != (got == "") {
			t.Errorf("%v: %q, want %q", labels, got, says)
		}
	}
}

// TestGrace bounds for how long a member keeps its GPUs after it was told to stop.
func TestGrace(t *testing.T) {
	for seconds, refused := range map[int64]bool{0: false, 30: false, 3600: false, 3601: true, 1 << 40: true} {
		job := &v1alpha1.TrainingJob{Spec: v1alpha1.TrainingJobSpec{Roles: []v1alpha1.Role{{
			Name: "worker", Command: []string{"true"}, Template: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &seconds}},
		}}}}
		job.Name = "lab"
		if problem := check(job); strings.Contains(problem, "terminationGracePeriodSeconds") != refused {
			t.Errorf("%d seconds: %q", seconds, problem)
		}
	}
}
