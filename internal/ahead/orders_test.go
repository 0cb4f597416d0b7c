package ahead

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/snapshot"
)

// reader is a gang of two roles that read parts of commits; lazily those after a "~".
func reader(namespace string, commits ...string) *v1alpha1.Gang {
	g := &v1alpha1.Gang{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "g"}}
	for range 2 {
		var role v1alpha1.GangRole
		for _, commit := range commits {
			attributes := map[string]string{"commit": commit, "path": "/train", "key": "k" + commit, "words": "digits@main"}
			if commit[0] == '~' {
				attributes["lazy"] = "true"
			}
			role.Template.Spec.Volumes = append(role.Template.Spec.Volumes, corev1.Volume{VolumeSource: corev1.VolumeSource{
				CSI: &corev1.CSIVolumeSource{Driver: v1alpha1.DataDriver, VolumeAttributes: attributes},
			}})
		}
		role.Template.Spec.Volumes = append(role.Template.Spec.Volumes, corev1.Volume{VolumeSource: corev1.VolumeSource{
			CSI: &corev1.CSIVolumeSource{Driver: v1alpha1.DataDriver, VolumeAttributes: map[string]string{"desk": "true"}},
		}}, corev1.Volume{VolumeSource: corev1.VolumeSource{
			CSI: &corev1.CSIVolumeSource{Driver: v1alpha1.CodeDriver, VolumeAttributes: map[string]string{"commit": "no"}},
		}})
		g.Spec.Roles = append(g.Spec.Roles, role)
	}
	return g
}

func order(namespace, commit string) v1alpha1.DataOrder {
	return v1alpha1.DataOrder{Namespace: namespace, Commit: commit, Path: "/train", Key: "k" + commit, Words: "digits@main"}
}

func TestOrders(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	o := New(func() time.Time { return now })
	of := func(node string) []v1alpha1.DataOrder {
		t.Helper()
		orders, _, ours := o.Of(node)
		if !ours {
			t.Error("they are another replica's")
		}
		return orders
	}
	may := func(node, namespace string) bool {
		may, _ := o.May(node, namespace)
		return may
	}
	if _, _, ours := o.Of("n0"); ours {
		t.Error("before the scheduler said anything they are ours")
	}
	if o.Wants(reader("team")) || o.Wants(reader("team", "~c1")) || !o.Wants(reader("team", "c1")) {
		t.Error("it wants others than those that read")
	}
	o.Tell([]snapshot.Prospect{
		{Gang: reader("team", "c1", "~c2", "c3"), Nodes: []string{"n0", "n1"}},
		{Gang: reader("other", "c1"), Nodes: []string{"n1"}},
		{Gang: reader("team", "c3"), Nodes: []string{"n1"}},
	})
	if diff := cmp.Diff([]v1alpha1.DataOrder{order("team", "c1"), order("team", "c3")}, of("n0")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]v1alpha1.DataOrder{order("team", "c1"), order("team", "c3"), order("other", "c1")}, of("n1")); diff != "" {
		t.Error(diff)
	}
	if !may("n0", "team") || !may("n1", "other") || may("n0", "other") || may("n2", "team") {
		t.Error("they let in others than those with orders")
	}
	// The same again is no news; that one is gone is.
	_, changed, _ := o.Of("n0")
	again := []snapshot.Prospect{
		{Gang: reader("team", "c1", "c3"), Nodes: []string{"n0", "n1"}},
		{Gang: reader("other", "c1"), Nodes: []string{"n1"}},
	}
	o.Tell(again)
	select {
	case <-changed:
		t.Error("the same is news")
	default:
	}
	o.Tell(again[1:])
	<-changed
	if of("n0") != nil || may("n0", "team") || may("n1", "team") || !may("n1", "other") {
		t.Error("what is gone is let in")
	}
	// A scheduler that falls silent says nothing of who starts.
	now = now.Add(good + time.Second)
	if of("n1") != nil || may("n1", "other") {
		t.Error("orders outlive who gave them")
	}
	o.Tell(again[1:])
	if !may("n1", "other") {
		t.Error("it is not heard again")
	}
}

// A node is not given more than it could fetch.
func TestOrdersAreBounded(t *testing.T) {
	o := New(nil)
	var commits []string
	for i := range 3 * mostOfNode {
		commits = append(commits, string(rune('A'+i)))
	}
	o.Tell([]snapshot.Prospect{{Gang: reader("team", commits...), Nodes: []string{"n0"}}})
	if orders, _, _ := o.Of("n0"); len(orders) != mostOfNode || orders[0] != order("team", "A") {
		t.Errorf("%d orders", len(orders))
	}
}
