package trainingjob

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

func TestRunsBesideAgents(t *testing.T) {
	labels := map[string]string{"muster.dev/agent": "true"}
	driver := func(name string) *corev1.PodTemplateSpec {
		volume := corev1.Volume{Name: "foreman", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: name}}}
		return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Volumes: []corev1.Volume{volume}}}
	}
	chosen := driver(v1alpha1.StageDriver)
	chosen.Spec.NodeSelector = map[string]string{"muster.dev/agent": "mine", "zone": "a"}
	says := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{NodeSelector: map[string]string{corev1.LabelArchStable: "amd64"}}}
	for name, test := range map[string]struct {
		p        preparation
		template *corev1.PodTemplateSpec
		want     map[string]string
	}{
		"with code":                 {preparation{code: "c0de", agentNodes: labels}, nil, labels},
		"with an environment":       {preparation{environment: "key", agentNodes: labels}, nil, labels},
		"built for arm64":           {preparation{environment: "key", architecture: "arm64", agentNodes: labels}, nil, map[string]string{"muster.dev/agent": "true", corev1.LabelArchStable: "arm64"}},
		"that says which":           {preparation{environment: "key", architecture: "arm64"}, says, map[string]string{corev1.LabelArchStable: "amd64"}},
		"with data":                 {preparation{data: []v1alpha1.JobDataStatus{{Mount: "in"}}, agentNodes: labels}, nil, labels},
		"of a stage":                {preparation{agentNodes: labels}, driver(v1alpha1.StageDriver), labels},
		"that chooses nodes":        {preparation{agentNodes: labels}, chosen, map[string]string{"muster.dev/agent": "mine", "zone": "a"}},
		"with another driver":       {preparation{agentNodes: labels}, driver("csi.example.com"), nil},
		"with nothing":              {preparation{agentNodes: labels}, nil, nil},
		"where agents are anywhere": {preparation{code: "c0de"}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			job := &v1alpha1.TrainingJob{}
			job.Spec.Roles = []v1alpha1.Role{{Name: "worker", Template: test.template}}
			template := templateFor(job, &job.Spec.Roles[0], test.p)
			if diff := cmp.Diff(test.want, template.Spec.NodeSelector); diff != "" {
				t.Error(diff)
			}
		})
	}
}
