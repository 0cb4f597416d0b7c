package member

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestUnmade(t *testing.T) {
	job := func(conditions ...any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": map[string]any{"name": "mnist", "namespace": "team"},
			"status": map[string]any{"conditions": conditions},
		}}
	}
	condition := func(kind, reason, message string) any {
		return map[string]any{"type": kind, "status": "True", "reason": reason, "message": message}
	}
	const claimed = "Muster runs this job as the TrainingJob of the same name."
	for name, c := range map[string]struct {
		job         *unstructured.Unstructured
		ours        bool
		phase, says string
		refused     bool
	}{
		"refused": {job(condition("Created", "TFJobCreated", claimed), condition("Failed", "TFJobFailedValidation", "it cannot be run as it is written: spec.tfReplicaSpecs has no replicas: give at least one replica type with replicas above 0")),
			true, "Failed", "replicas above 0. Correct that in the manifest, then `muster delete tfjob/mnist` and `muster apply` it again", true},
		"failed":         {job(condition("Created", "TFJobCreated", claimed), condition("Failed", "TFJobFailed", "it ran out of time")), true, "Failed", "it ran out of time", false},
		"blocked":        {job(condition("Created", "TFJobCreated", claimed+" Not yet: exceeded quota: x.")), true, "Waiting", "Not yet: exceeded quota: x.", false},
		"new":            {job(condition("Created", "TFJobCreated", claimed)), true, "Waiting", "its TrainingJob is about to be made", false},
		"of an operator": {job(condition("Created", "TFJobCreated", "TFJob mnist is created.")), false, "", "", false},
		"unseen":         {job(), false, "", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			u, ours := UnmadeOf(c.job)
			if ours != c.ours || u.Phase != c.phase || u.Refused != c.refused {
				t.Fatalf("ours is %v: %+v", ours, u)
			}
			if ours && !strings.Contains(u.Sentence(), c.says) {
				t.Errorf("%q does not contain %q", u.Sentence(), c.says)
			}
			if !u.Refused && strings.Contains(u.Sentence(), "muster delete") {
				t.Errorf("%q has advice for another case", u.Sentence())
			}
		})
	}
}
