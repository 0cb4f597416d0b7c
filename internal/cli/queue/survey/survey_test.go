package survey_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/queue/sample"
	"github.com/muster-dev/muster/internal/cli/queue/survey"
)

// TestReadOfACluster has the GPUs count that device plugins count on nodes that
// are Muster's, and their models where labels say them.
func TestReadOfACluster(t *testing.T) {
	node := func(name, gpus string, labels map[string]string) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
			Status:     corev1.NodeStatus{Allocatable: corev1.ResourceList{v1alpha1.ResourceGPU: resource.MustParse(gpus)}},
		}
	}
	known := node("a", "2", map[string]string{v1alpha1.LabelOwned: "true", v1alpha1.LabelGPUModel: "NVIDIA-H100-80GB-HBM3"})
	unknown := node("b", "3", map[string]string{v1alpha1.LabelOwned: "true"})
	for _, c := range []struct {
		nodes  []*corev1.Node
		models []string
		over   bool // four guaranteed are more than there are
	}{
		{[]*corev1.Node{known}, []string{"H100"}, true},
		{[]*corev1.Node{unknown}, []string{"GPU"}, true},
		{[]*corev1.Node{known, unknown}, []string{"GPU", "H100"}, false},
		{[]*corev1.Node{unknown, node("c", "8", nil)}, []string{"GPU"}, true},
	} {
		server := sample.World(t, sample.Queue("vision", "", "4", nil))
		for _, n := range c.nodes {
			if err := server.Create(t.Context(), n.DeepCopy()); err != nil {
				t.Fatal(err)
			}
		}
		s, err := survey.Read(t.Context(), server)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(s.Models, c.models) {
			t.Errorf("%d nodes: models are %q, want %q", len(c.nodes), s.Models, c.models)
		}
		gpus, found := s.Tree.Classes().Find("gpu")
		if !found {
			t.Fatal("there is no class of GPUs")
		}
		if over := s.Tree.Overcommitted(gpus) > 0; over != c.over {
			t.Errorf("%d nodes: the guarantee of 4 GPUs is more than there are: %t, want %t", len(c.nodes), over, c.over)
		}
	}
}
