package tenant

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/people/frontproxy"
	"github.com/muster-dev/muster/internal/people/owner"
)

// TestProfiles checks, for each kind of tenant, the objects, the subjects of their bindings, and the
// labels of the namespace.
func TestProfiles(t *testing.T) {
	rights := []string{"*v1.RoleBinding muster-user", "*v1.Role muster-queue", "*v1.RoleBinding muster-queue", "*v1.ClusterRoleBinding muster-names-%s"}
	network := []string{"*v1.NetworkPolicy muster-closed", "*v1.NetworkPolicy muster-gangs", "*v1.NetworkPolicy muster-builds", "*v1.NetworkPolicy muster-gateway", "*v1.NetworkPolicy muster-names"}
	door := "*v1.ServiceAccount " + v1alpha1.DoorAccount
	for _, c := range []struct {
		name, namespace   string
		tenant            Tenant
		objects           []string // beside the rights
		subject, security string
		parent            string
	}{
		{"of a cluster", "ada", Tenant{Name: "ada", Queue: "vision"}, append([]string{door, "*v1.ServiceAccount ada"}, network...), "ServiceAccount ada", "baseline", ""},
		{"of a cluster, by an identity", "ada", Tenant{Name: "ada", Queue: "vision", Identity: "ada@example.com"}, append([]string{door}, network...), "User ada@example.com", "baseline", ""},
		{"of a machine", "u-1000", OfMachine(1000, ""), nil, "User unix:1000", "", ""},
		{"of a machine, root", "u-0", OfMachine(0, ""), nil, "User unix:0", "", ""},
		{"of a machine, below the queue of a group", "u-4294967294", OfMachine(4294967294, "vision"), nil, "User unix:4294967294", "", "vision"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var want, got []string
			for _, right := range rights {
				if right == rights[3] {
					right = fmt.Sprintf(right, c.namespace)
				}
				want = append(want, right)
			}
			for _, o := range c.tenant.objects() {
				got = append(got, fmt.Sprintf("%T %s", o, o.GetName()))
				var subjects []rbacv1.Subject
				switch o := o.(type) {
				case *rbacv1.RoleBinding:
					subjects = o.Subjects
				case *rbacv1.ClusterRoleBinding:
					subjects = o.Subjects
				default:
					continue
				}
				if len(subjects) != 1 || subjects[0].Kind+" "+subjects[0].Name != c.subject {
					t.Errorf("%s gives rights to %+v, want %s", o.GetName(), subjects, c.subject)
				}
			}
			if diff := cmp.Diff(slices.Concat(want, c.objects), got); diff != "" {
				t.Error(diff)
			}
			n := c.tenant.namespace()
			if n.Name != c.namespace || n.Labels["pod-security.kubernetes.io/enforce"] != c.security || n.Labels[LabelUser] != c.namespace {
				t.Errorf("namespace %s has the labels %v", n.Name, n.Labels)
			}
			if q := c.tenant.queue(); q.Name != c.tenant.Queue || q.Spec.Parent != c.parent || q.Spec.Weight != nil || q.Spec.Borrowing != "" {
				t.Errorf("queue %s: %+v", q.Name, q.Spec)
			}
			quota := c.tenant.quota()
			if len(quota.Spec.Hard) == 0 {
				t.Error("nothing bounds the objects of the tenant")
			}
			// A cluster has nodes for more pods than one machine.
			if _, bounded := quota.Spec.Hard[corev1.ResourcePods]; bounded != (c.tenant.Profile.Identity == SocketIdentity) {
				t.Errorf("the number of pods is bounded: %v", bounded)
			}
		})
	}
}

// TestOwnersOfNamespaces: the namespace of a tenant of a machine leads back to the user whom the
// front proxy names.
func TestOwnersOfNamespaces(t *testing.T) {
	for _, uid := range []uint32{0, 1, 1000, 65533, 65535, 4294967294} {
		tenant := OfMachine(uid, "")
		if got, ok := owner.Of(tenant.Name); !ok || got != uid {
			t.Errorf("the namespace %s belongs to uid %d (%t), want %d", tenant.Name, got, ok, uid)
		}
		if want := fmt.Sprintf("%s%d", frontproxy.UserPrefix, uid); tenant.Identity != want {
			t.Errorf("the tenant of uid %d is %s, and the front proxy says %s", uid, tenant.Identity, want)
		}
	}
}
