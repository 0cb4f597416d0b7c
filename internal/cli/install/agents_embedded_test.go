//go:build embedded

package install_test

import (
	"context"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1apply "k8s.io/client-go/applyconfigurations/meta/v1"
	resourcev1apply "k8s.io/client-go/applyconfigurations/resource/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/rehearsal"
	"github.com/muster-dev/muster/internal/inventory"
)

// agents tries what an agent may, with its rights alone: to speak for its own
// node.
func agents(t *testing.T, server *rehearsal.Server) {
	t.Helper()
	config := rest.CopyConfig(server.Config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:muster-system:muster-node",
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:muster-system", "system:authenticated"},
		Extra:    map[string][]string{"authentication.kubernetes.io/node-name": {"mine"}},
	}
	agent, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	slice := func(name, node, driver string) *resourcev1.ResourceSlice {
		return &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceSliceSpec{
			Driver: driver, NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, ResourceSliceCount: 1},
		}}
	}
	for name, c := range map[string]struct {
		slice *resourcev1.ResourceSlice
		says  string
	}{
		"its node's":          {slice("a", "mine", inventory.Driver), ""},
		"another node's":      {slice("b", "other", inventory.Driver), "of its own node alone"},
		"for another driver":  {slice("c", "mine", "gpu.nvidia.com"), "of its own node alone"},
		"another's, to begin": {slice("d", "other", "gpu.nvidia.com"), "of its own node alone"},
	} {
		t.Run("slices, "+name, func(t *testing.T) {
			_, err := agent.ResourceV1().ResourceSlices().Create(t.Context(), c.slice, metav1.CreateOptions{})
			judge(t, err, c.says)
		})
	}
	t.Run("slices, of others to remove", func(t *testing.T) {
		if err := server.Client.Create(t.Context(), slice("theirs", "other", inventory.Driver)); err != nil {
			t.Fatal(err)
		}
		judge(t, agent.ResourceV1().ResourceSlices().Delete(t.Context(), "theirs", metav1.DeleteOptions{}), "of its own node alone")
	})
	for name, c := range map[string]struct{ node, says string }{
		"claims of its node":     {"mine", ""},
		"claims of another node": {"other", "resourceclaims/driver"},
	} {
		t.Run(name, func(t *testing.T) { agentOnClaim(t, server, agent, c.node, c.says) })
	}
	// Servers before 1.36 have no right of that name: it is as if everybody had it.
	for _, o := range everywhere() {
		if err := server.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("claims of another node, before 1.36", func(t *testing.T) {
		rehearsal.Eventually(t, "the right to speak of claims of any node", func(ctx context.Context) bool {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: config.Impersonate.UserName, Groups: config.Impersonate.Groups,
				ResourceAttributes: &authorizationv1.ResourceAttributes{Group: "resource.k8s.io", Resource: "resourceclaims", Subresource: "driver", Name: inventory.Driver, Namespace: "team", Verb: "arbitrary-node:patch"},
			}}
			return server.Client.Create(ctx, review) == nil && review.Status.Allowed
		})
		agentOnClaim(t, server, agent, "elsewhere", "of its own node alone")
	})
	t.Run("claims it makes", func(t *testing.T) {
		claim := inventory.Claim(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "p", UID: "1"}}, "made", 1, nil)
		_, err := agent.ResourceV1().ResourceClaims("team").Create(t.Context(), claim, metav1.CreateOptions{})
		judge(t, err, "forbidden")
	})
}

// agentOnClaim has the agent of the node mine say what the devices of a claim do,
// and try to allocate it.
func agentOnClaim(t *testing.T, server *rehearsal.Server, agent kubernetes.Interface, node, refusal string) {
	t.Helper()
	ctx, name := t.Context(), "of-"+node
	claim := inventory.Claim(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "p", UID: "1", Labels: map[string]string{v1alpha1.LabelGang: "g"}}}, name, 1, nil)
	claim.OwnerReferences = nil // which is not there: the claim would go
	if err := server.Client.Create(ctx, claim); err != nil {
		t.Fatal(err)
	}
	result := resourcev1apply.DeviceRequestAllocationResult().WithRequest(inventory.Request).WithDriver(inventory.Driver).WithPool(node).WithDevice("gpu-0")
	steal := resourcev1apply.ResourceClaim(name, "team").WithStatus(resourcev1apply.ResourceClaimStatus().
		WithAllocation(resourcev1apply.AllocationResult().WithDevices(resourcev1apply.DeviceAllocationResult().WithResults(result))))
	_, err := agent.ResourceV1().ResourceClaims("team").ApplyStatus(ctx, steal, metav1.ApplyOptions{FieldManager: "thief", Force: true})
	judge(t, err, "orbidden")
	to, err := inventory.Allocation(node, []inventory.GPU{{Driver: inventory.Driver, Pool: node, Name: "gpu-0"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	claim.Status.Allocation = to
	if err := server.Client.Status().Update(ctx, claim); err != nil {
		t.Fatal(err)
	}
	says := resourcev1apply.ResourceClaim(name, "team").WithUID(claim.UID).WithStatus(resourcev1apply.ResourceClaimStatus().WithDevices(
		resourcev1apply.AllocatedDeviceStatus().WithDriver(inventory.Driver).WithPool(node).WithDevice("gpu-0").WithConditions(
			metav1apply.Condition().WithType(v1alpha1.ConditionGPUShare).WithStatus(metav1.ConditionFalse).WithReason("NotEnforced").WithMessage("so").WithLastTransitionTime(metav1.Now()))))
	_, err = agent.ResourceV1().ResourceClaims("team").ApplyStatus(ctx, says, metav1.ApplyOptions{FieldManager: inventory.Driver, Force: true})
	judge(t, err, refusal)
}

// everywhere gives agents the right to speak of claims of any node.
func everywhere() []client.Object {
	name := metav1.ObjectMeta{Name: "agents-everywhere"}
	return []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: name, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"resource.k8s.io"}, Resources: []string{"resourceclaims/driver"}, ResourceNames: []string{inventory.Driver}, Verbs: []string{"arbitrary-node:patch"},
		}}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name.Name},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "muster-system", Name: "muster-node"}},
		},
	}
}

// judge compares an answer with part of a refusal; empty: it is to be allowed.
func judge(t *testing.T, err error, says string) {
	t.Helper()
	if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
		t.Errorf("the answer is %v, want %q", err, says)
	}
}
