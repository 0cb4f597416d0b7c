package alternative

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestPhrase(t *testing.T) {
	for _, c := range []struct {
		group, kind string
		served      []string
		says        string
	}{
		{"batch.volcano.sh", "Job", nil, "a role for each task"},
		{"scheduling.volcano.sh", "Queue", nil, "muster queue create"},
		{"scheduling.volcano.sh", "PodGroup", nil, "leave it out"},
		{"flow.volcano.sh", "JobTemplate", nil, "stages of a Pipeline"},
		{"kubeflow.org", "MPIJob", nil, "mpirun -np 4"},
		{"kubeflow.org", "JAXJob", nil, "jax.distributed.initialize"},
		{"kubeflow.org", "TFJob", []string{"v1"}, ": it has TFJob as kubeflow.org/v1; write that apiVersion"},
		{"mlkube.io", "TfJob", nil, "tfReplicaSpecs"},
		{"trainer.kubeflow.org", "TrainJob", nil, "torchrun"},
		{"trainer.kubeflow.org", "ClusterTrainingRuntime", nil, "needs no runtime"},
		{"argoproj.io", "CronWorkflow", nil, "stages of a Pipeline"},
		{"argoproj.io", "Application", nil, ""},
		{"scheduling.k8s.io", "PriorityClass", []string{"v1"}, "scheduling.k8s.io/v1;"},
		{"", "Novelty", nil, ""},
	} {
		says := Phrase(schema.GroupKind{Group: c.group, Kind: c.kind}, c.served)
		if (says == "") != (c.says == "") || !strings.Contains(says, c.says) {
			t.Errorf("%s of %s: %q, want %q", c.kind, c.group, says, c.says)
		}
	}
}

// TestSentences: a sentence follows a colon and ends a message.
func TestSentences(t *testing.T) {
	for group, all := range kinds {
		for kind, sentence := range all {
			if sentence == "" || strings.HasSuffix(sentence, ".") || strings.Count(sentence, "`")%2 != 0 {
				t.Errorf("%s of %s: %q", kind, group, sentence)
			}
		}
	}
}
