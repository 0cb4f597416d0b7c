package node

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The labels of the configuration are put on the Node; one that is not there
// the next time is taken off, and one that somebody else put there stays.
func TestLabelsOfTheConfiguration(t *testing.T) {
	w := newWorld(t, func(c *Config) {
		c.Labels = map[string]string{"muster.dev/rack": "r07", "topology.kubernetes.io/zone": "a"}
	})
	labels := func() map[string]string {
		t.Helper()
		n, err := w.client.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return n.Labels
	}
	if l := labels(); l["muster.dev/rack"] != "r07" || l["topology.kubernetes.io/zone"] != "a" || l["kubernetes.io/hostname"] == "" {
		t.Fatalf("at first: %v", l)
	}
	n, err := w.client.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n.Labels["team"] = "vision"
	if _, err := w.client.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.stop()
	w.config = func(c *Config) { c.Labels = map[string]string{"muster.dev/rack": "r08"} }
	w.start()
	l := labels()
	if _, stays := l["topology.kubernetes.io/zone"]; stays || l["muster.dev/rack"] != "r08" || l["team"] != "vision" {
		t.Errorf("afterwards: %v", l)
	}
}
