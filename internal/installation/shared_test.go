package installation

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var sharing = Sharing{
	Version: "v1.2.3", Manager: "muster:manager", Node: "muster:node",
	Administrators: []string{"ops", `LAB\domain admins`}, Refused: []string{"/proc", "/var/lib/muster"},
}

// TestShared: the rules of one machine name Muster's own parts and no service account, and
// have no kind that nothing there enforces or runs.
func TestShared(t *testing.T) {
	objects, err := RenderShared(sharing)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if slices.Contains([]string{"Namespace", kindCRD, "ServiceAccount", "NetworkPolicy", "Service", "Queue", kindDeployment, kindDaemonSet}, o.GetKind()) {
			t.Errorf("%s is no rule", Title(o))
		}
		if owner := ownerOf(o); owner != Ours {
			t.Errorf("%s is of %q", Title(o), owner)
		}
		text, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		for _, account := range []string{"system:serviceaccount:muster-system:", `"ServiceAccount"`, "pod-security.kubernetes.io"} {
			if strings.Contains(string(text), account) {
				t.Errorf("%s has %s", Title(o), account)
			}
		}
	}
	for _, c := range []struct {
		kind, name string
		want       []string
	}{
		{"ClusterRoleBinding", "muster-machine-administrators", []string{"Group unix-group:ops", `Group unix-group:LAB\domain admins`}},
		{"ClusterRoleBinding", "muster-machine-root", []string{"User unix:0"}},
		{"ClusterRoleBinding", "muster-manager", []string{"User muster:manager"}},
		{"RoleBinding", "muster-manager", []string{"User muster:manager"}},
		{"ClusterRoleBinding", "muster-machine-node", []string{"User muster:node"}},
	} {
		o := find(objects, c.kind, c.name)
		if o == nil {
			t.Fatalf("there is no %s %s", c.kind, c.name)
		}
		var got []string
		subjects, _, _ := unstructured.NestedSlice(o.Object, "subjects")
		for _, s := range subjects {
			subject := s.(map[string]any)
			got = append(got, subject["kind"].(string)+" "+subject["name"].(string))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s gives rights to %q, want %q", c.name, got, c.want)
		}
	}
	// A policy and its binding are there together.
	for _, o := range objects {
		if strings.HasSuffix(o.GetKind(), "AdmissionPolicy") && find(objects, o.GetKind()+"Binding", o.GetName()) == nil {
			t.Errorf("%s has no binding", Title(o))
		}
	}
	if alone, err := RenderShared(Sharing{Manager: "m", Node: "n"}); err != nil || find(alone, "ClusterRoleBinding", "muster-machine-administrators") != nil {
		t.Errorf("without a group of administrators: %v", err)
	}
}

func TestSharedRefuses(t *testing.T) {
	for name, change := range map[string]func(*Sharing){
		"a group of two":      func(s *Sharing) { s.Administrators = []string{"a,b"} },
		"a group of no name":  func(s *Sharing) { s.Administrators = []string{""} },
		"a group with lines":  func(s *Sharing) { s.Administrators = []string{"a\nb"} },
		"all folders":         func(s *Sharing) { s.Refused = []string{"/"} },
		"a relative folder":   func(s *Sharing) { s.Refused = []string{"data"} },
		"an unclean folder":   func(s *Sharing) { s.Refused = []string{"/a/../b"} },
		"a folder with CEL":   func(s *Sharing) { s.Refused = []string{"/a'b"} },
		"a folder with lines": func(s *Sharing) { s.Refused = []string{"/a\nb"} },
	} {
		given := sharing
		change(&given)
		if _, err := RenderShared(given); err == nil {
			t.Errorf("%s is allowed", name)
		}
	}
}
