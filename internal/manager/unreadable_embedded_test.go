//go:build embedded

package manager_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// unreadable are objects whose specs the API server takes and Go's types cannot hold.
var unreadable = map[string]string{
	"containers-of-a-template": `{kind: TrainingJob, spec: {roles: [{name: w, command: [a], template: {spec: {containers: x}}}]}}`,
	"number-in-a-template":     `{kind: TrainingJob, spec: {roles: [{name: w, command: [a], template: {spec: {terminationGracePeriodSeconds: 1.5}}}]}}`,
	"time-in-a-template":       `{kind: TrainingJob, spec: {roles: [{name: w, command: [a], template: {metadata: {creationTimestamp: x}}}]}}`,
	"amount-in-a-template":     `{kind: TrainingJob, spec: {roles: [{name: w, command: [a], template: {spec: {containers: [{name: a, resources: {limits: {cpu: many}}}]}}}]}}`,
	"amount":                   `{kind: TrainingJob, spec: {roles: [{name: w, command: [a], resources: {limits: {cpu: "1e99999999999999999999"}}}]}}`,
	"size-of-a-claim":          `{kind: TrainingJob, spec: {checkpoints: {size: "1e99999999999999999999"}, roles: [{name: w, command: [a]}]}}`,
	"training":                 `{kind: Pipeline, spec: {stages: [{name: s, input: {dataset: raw, glob: "/*"}, training: {roles: x}}]}}`,
	"framework":                `{kind: Pipeline, spec: {stages: [{name: s, input: {dataset: raw, glob: "/*"}, training: {framework: {a: 1}}}]}}`,
	"amount-of-a-stage":        `{kind: Pipeline, spec: {stages: [{name: s, input: {dataset: raw, glob: "/*"}, command: [a], resources: {limits: {cpu: "1e99999999999999999999"}}}]}}`,
	"training-of-a-run":        `{kind: PipelineRun, spec: {pipeline: p, identity: i, number: 1, cause: c, stages: [{name: s, input: {dataset: raw, glob: "/*"}, training: {roles: x}}]}}`,
}

// unstorable are such objects that the API server refuses.
var unstorable = map[string]string{
	"32-bits":         `{kind: TrainingJob, spec: {ttlSecondsAfterFinished: 3000000000, roles: [{name: w, command: [a]}]}}`,
	"64-bits":         `{kind: TrainingJob, spec: {activeDeadlineSeconds: 30000000000000000000000, roles: [{name: w, command: [a]}]}}`,
	"share":           `{kind: TrainingJob, spec: {roles: [{name: w, command: [a], gpus: "1e99999999999999999999"}]}}`,
	"time":            `{kind: Dataset, spec: {branches: [{name: main, commit: "", moved: "yesterday"}]}}`,
	"time-with-blank": `{kind: Dataset, spec: {branches: [{name: main, commit: "", moved: "2026-01-01 00:00:00Z"}]}}`,
	"time-of-a-zone":  `{kind: Dataset, spec: {branches: [{name: main, commit: "", moved: "2026-01-01T00:00:00.000+0100"}]}}`,
	"small-t":         `{kind: Dataset, spec: {branches: [{name: main, commit: "", moved: "2026-01-01t00:00:00z"}]}}`,
}

func (s *stage) tree(name, text string) *unstructured.Unstructured {
	s.t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		s.t.Fatal(err)
	}
	o.SetAPIVersion(v1alpha1.GroupVersion.String())
	o.SetNamespace("default")
	o.SetName(name)
	return o
}

// TestUnreadableObjects stores objects that Go's types cannot hold: the manager reports the
// fault in the status of each, and serves all others.
func TestUnreadableObjects(t *testing.T) {
	s := newStage(t)
	for name, text := range unstorable {
		if err := s.api.Create(t.Context(), s.tree(name, text)); err == nil {
			t.Errorf("%s: it was stored", name)
		}
	}
	made := map[string]string{}
	for name, text := range unreadable {
		o := s.tree(name, text)
		if err := s.api.Create(t.Context(), o); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		made[name] = o.GetKind()
	}
	s.Node("a", 4, true)
	s.run("one")
	job := func(name string) {
		t.Helper()
		err := s.api.Create(t.Context(), &v1alpha1.TrainingJob{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec: v1alpha1.TrainingJobSpec{
				Environment: &v1alpha1.Environment{Image: "python:3.13"}, Checkpoints: &v1alpha1.Checkpoints{None: true},
				Roles: []v1alpha1.Role{{Name: "worker", Command: []string{"true"}}},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		s.awaitPods(name, 1)
	}
	job("before")
	for name, kind := range made {
		switch kind {
		case "TrainingJob":
			await(s, &v1alpha1.TrainingJobList{}, name+" failed", func(j *v1alpha1.TrainingJob) bool {
				return j.Name == name && j.Status.Phase == v1alpha1.JobFailed && strings.Contains(j.Status.Message, "spec: it cannot be read (")
			})
		case "Pipeline":
			await(s, &v1alpha1.PipelineList{}, name+" is invalid", func(p *v1alpha1.Pipeline) bool {
				return p.Name == name && p.Status.Phase == v1alpha1.PipelineInvalid && strings.Contains(p.Status.Message, "spec: it cannot be read (")
			})
		case "PipelineRun":
			runs := &v1alpha1.PipelineRunList{}
			if err := s.api.List(t.Context(), runs); err != nil || len(runs.Items) != 1 || runs.Items[0].Unreadable == "" {
				t.Errorf("runs %+v, %v", runs.Items, err)
			}
		}
	}
	// While a watch is open.
	if err := s.api.Create(t.Context(), s.tree("later", unreadable["containers-of-a-template"])); err != nil {
		t.Fatal(err)
	}
	job("after")
	// A job that ran before it could not be read.
	running := s.tree("before", unreadable["amount"])
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"roles":[{"name":"worker","command":["true"],"template":{"spec":{"containers":"x"}}}]}}`))
	if err := s.api.Patch(t.Context(), running, patch); err != nil {
		t.Fatal(err)
	}
	await(s, &v1alpha1.TrainingJobList{}, "it says so and goes on", func(j *v1alpha1.TrainingJob) bool {
		c := meta.FindStatusCondition(j.Status.Conditions, "Current")
		return j.Name == "before" && c != nil && strings.Contains(c.Message, "cannot be read") && j.Status.Phase != v1alpha1.JobFailed
	})
	s.awaitPods("before", 1)
}
