package dryrun

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWithoutSample(t *testing.T) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "mnist-worker-"}}
	words := withoutSample(`pods "mnist-worker-x7k2p" is forbidden: exceeded quota: team`, p)
	if want := "its pods are forbidden: exceeded quota: team"; words != want {
		t.Errorf("got %q, want %q", words, want)
	}
}
