//go:build embedded

package manager_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// A gang on nodes that only count their GPUs is placed, its pods carry their
// nodes and ask for what those have; what others hold there is not given out.
func TestGangOnNodesThatCount(t *testing.T) {
	s := newStage(t)
	s.Node("a", 4, true)
	s.Node("b", 4, true)
	s.Node("cpu", 0, false)
	// Somebody else has one GPU of a.
	other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "other"}, Spec: corev1.PodSpec{NodeName: "a", Containers: []corev1.Container{{
		Name: "main", Image: "python:3.13", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{v1alpha1.ResourceGPU: resource.MustParse("1")}},
	}}}}
	if err := s.api.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	s.run("one")
	s.Gang("first", 3, "2")
	on := map[string]int{}
	for _, p := range s.awaitPods("first", 3) {
		q := p.Spec.Containers[0].Resources.Limits[v1alpha1.ResourceGPU]
		if p.Spec.NodeName == "" || q.Value() != 2 || !strings.HasPrefix(p.Annotations[v1alpha1.AnnotationGPUs], "counted-") {
			t.Errorf("%s is on %q, asks for %s GPUs and was given %s", p.Name, p.Spec.NodeName, q.String(), p.Annotations[v1alpha1.AnnotationGPUs])
		}
		on[p.Spec.NodeName]++
	}
	if on["a"] != 1 || on["b"] != 2 {
		t.Errorf("members are on %v; one fits on a beside the other pod, and two on b", on)
	}
	// One GPU is left, on a.
	s.Gang("second", 1, "2")
	s.awaitGang("second", "the reason", func(g *v1alpha1.Gang) bool { return strings.Contains(g.Status.Message, "1 is free") })
	s.Gang("part", 1, "500m")
	s.awaitGang("part", "the reason of a part", func(g *v1alpha1.Gang) bool {
		return strings.Contains(g.Status.Message, "no node has a GPU of which a part can be given")
	})
	s.Gang("cpus", 1, "0")
	if p := s.awaitPods("cpus", 1)[0]; p.Spec.NodeName != "cpu" {
		t.Errorf("work without GPUs is on %s", p.Spec.NodeName)
	}
}
