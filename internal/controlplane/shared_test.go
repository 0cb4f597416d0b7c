package controlplane

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func rule(kind, name, hash string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"kind": kind}}
	o.SetName(name)
	if hash != "" {
		o.SetAnnotations(map[string]string{annotationManifest: hash})
	}
	return o
}

func TestCompareRules(t *testing.T) {
	wanted := []manifest{
		{object: rule("ClusterRole", "same", "1"), hash: "1"}, {object: rule("ClusterRole", "changed", "2"), hash: "2"},
		{object: rule("ClusterRole", "missing", "3"), hash: "3"}, {object: rule("ClusterRoleBinding", "same", "4"), hash: "4"},
		{object: rule("ClusterRole", "taken", "5"), hash: "5"},
	}
	changed, stale := compareRules(wanted, []*unstructured.Unstructured{
		rule("ClusterRole", "same", "1"), rule("ClusterRole", "changed", "1"), rule("ClusterRole", "former", "6"),
		rule("ClusterRole", "of-another", ""), rule("ClusterRole", "taken", ""),
	})
	var apply, remove []string
	for _, m := range changed {
		apply = append(apply, m.object.GetKind()+" "+m.object.GetName())
	}
	for _, o := range stale {
		remove = append(remove, o.GetKind()+" "+o.GetName())
	}
	if want := []string{"ClusterRole changed", "ClusterRole missing", "ClusterRoleBinding same", "ClusterRole taken"}; !slices.Equal(apply, want) {
		t.Errorf("applied %q, want %q", apply, want)
	}
	if want := []string{"ClusterRole former"}; !slices.Equal(remove, want) {
		t.Errorf("removed %q, want %q", remove, want)
	}
}

// TestRules: every kind of the rules of a shared control plane is known, and those that
// the start waits for come last.
func TestRules(t *testing.T) {
	c := &ControlPlane{options: Options{DataDir: "/var/lib/muster", Shared: &Sharing{Version: "v1"}}}
	rules, err := c.rules()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, m := range rules {
		names[m.resource.Resource+" "+m.object.GetName()] = true
	}
	for _, name := range []string{"validatingadmissionpolicies muster-machine-jobs", "prioritylevelconfigurations muster", "clusterrolebindings muster-machine-administrators"} {
		if !names[name] {
			t.Errorf("%s is missing", name)
		}
	}
	if rules, err := (&ControlPlane{}).rules(); err != nil || len(rules) > 0 {
		t.Errorf("a control plane of one user has %d rules, %v", len(rules), err)
	}
}
