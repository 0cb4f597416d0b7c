package tenant

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-dev/muster/internal/installation"
)

// storesNothing are subresources that a user may create: the API server stores no object.
var storesNothing = []string{"pods/exec", "pods/attach", "pods/portforward", "serviceaccounts/token", "services/proxy"}

// Each kind that a user may create has a bound, so that no user fills the memory of the API
// server. A quota cannot bound events (k8s.io/kubernetes/pkg/quota/v1/install): the role must
// not allow them.
func TestEachKindOfAUserIsBounded(t *testing.T) {
	objects, err := installation.Render(installation.Rendering{Version: "v1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	hard := Tenant{Name: "ada"}.quota().Spec.Hard
	unused := map[corev1.ResourceName]bool{}
	for name, most := range hard {
		unused[name] = true
		if n := most.Value(); n < 1 || n > 10000 {
			t.Errorf("the bound of %s is %d, want 1 to 10000", name, n)
		}
	}
	roles := 0
	for _, o := range objects {
		if o.GetKind() != "ClusterRole" || o.GetName() != "muster-user" && o.GetName() != "muster-names" {
			continue
		}
		roles++
		role := &rbacv1.ClusterRole{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, role); err != nil {
			t.Fatal(err)
		}
		for _, kind := range creatable(role) {
			name := corev1.ResourceName("count/" + kind)
			delete(unused, name)
			if _, bounded := hard[name]; !bounded || strings.HasPrefix(kind, "events") {
				t.Errorf("role %s allows a user to create any number of %s: add %s to the quota", role.Name, kind, name)
			}
		}
	}
	if roles != 2 || len(unused) > 0 {
		t.Errorf("%d roles were read, want 2; bounds of kinds that no role allows: %v", roles, unused)
	}
}

// creatable lists the kinds that a role allows to create, as resource or resource.group.
func creatable(role *rbacv1.ClusterRole) []string {
	var out []string
	for _, rule := range role.Rules {
		if !slices.ContainsFunc(rule.Verbs, func(v string) bool { return v == "create" || v == "*" }) {
			continue
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				switch {
				case slices.Contains(storesNothing, resource):
				case group == "":
					out = append(out, resource)
				default:
					out = append(out, fmt.Sprintf("%s.%s", resource, group))
				}
			}
		}
	}
	return out
}
