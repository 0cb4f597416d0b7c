package kind

import "testing"

func TestJob(t *testing.T) {
	for word, want := range map[string]string{
		"mnist": "mnist", "tj/mnist": "mnist", "TFJob/mnist": "mnist", "tfjobs.kubeflow.org/mnist": "mnist",
		"pytorchjob/mnist/worker-0": "mnist/worker-0", "mnist/worker-0": "mnist/worker-0", "pod/mnist": "pod/mnist", "tfjob": "tfjob",
	} {
		if got := Job(word); got != want {
			t.Errorf("%s: %s, want %s", word, got, want)
		}
	}
}
