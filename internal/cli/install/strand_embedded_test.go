//go:build embedded

package install_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/rehearsal"
	"github.com/muster-dev/muster/internal/fencing"
	"github.com/muster-dev/muster/internal/inventory"
)

// TestTheAgentStays: only force takes the agent away from a pod that has a GPU of it, and the
// values of an installation are kept.
func TestTheAgentStays(t *testing.T) {
	server := rehearsal.StartCluster(t)
	ctx := t.Context()
	empty := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(empty, []byte("manager: {replicas: 0}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	server.Run(t, []rehearsal.Step{
		{Args: "install --no-wait --set manager.replicas=0,agent.create=true", Says: "is applied"},
		{Args: "install --no-wait --values " + empty, Code: 1, Says: "is installed, and the values do not name it"},
	})
	rehearsal.AddNode(t, server.Client, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "one", Labels: map[string]string{v1alpha1.LabelAgent: "true"}}}, 0)
	trains := holder(t, server.Client)
	server.Run(t, []rehearsal.Step{
		{Args: "install --no-wait --set agent.create=false", Code: 1, Says: "1 pods that cannot end without it (default/trains on one)"},
		{Args: "install --no-wait --set agent.nodeSelector.disk=ssd", Code: 1, Says: "1 pods that cannot end without it (default/trains on one)"},
		{Args: "install --no-wait --values " + empty + " --reuse-values", Says: "with these values of the last installation: agent.create"},
		{Args: "install --dry-run", Says: "unchanged  DaemonSet muster-system/muster-node"},
		{Args: "install --dry-run --set manager.replicas=1", Says: "update     Deployment muster-system/muster-manager"},
		{Args: "uninstall --purge --yes", Code: 1, Says: "1 pods that no job made cannot end without the agent (default/trains on one)"},
		{Args: "uninstall --yes", Says: "the agent (DaemonSet muster-node), because 1 pods cannot end without it (default/trains on one)"},
		{Args: "uninstall --yes", Code: 3, Says: "the agent (DaemonSet muster-node)"},
	})
	if there(ctx, t, server.Client, &appsv1.Deployment{}, "muster-manager") || !there(ctx, t, server.Client, &appsv1.DaemonSet{}, "muster-node") ||
		!there(ctx, t, server.Client, &corev1.ServiceAccount{}, "muster-node") {
		t.Error("the manager is there, or the agent or its account is not")
	}
	node := "one"
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Spec: resourcev1.ResourceSliceSpec{
		Driver: inventory.Driver, NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, ResourceSliceCount: 1},
	}}
	if err := server.Client.Create(ctx, slice); err != nil {
		t.Fatal(err)
	}
	server.Run(t, []rehearsal.Step{
		{Args: "install --no-wait", Says: "with these values of the last installation: agent.create, manager.replicas"},
		{Args: "install --no-wait --set agent.create=false --force", Says: "DaemonSet muster-system/muster-node is removed"},
	})
	if there(ctx, t, server.Client, &appsv1.DaemonSet{}, "muster-node") {
		t.Error("by force the agent stays")
	}
	if err := server.Client.Get(ctx, client.ObjectKeyFromObject(slice), slice); !apierrors.IsNotFound(err) {
		t.Errorf("GPUs of an agent that is gone: %v", err)
	}
	// With the pod gone nothing holds the agent.
	if err := server.Client.Delete(ctx, trains, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	server.Run(t, []rehearsal.Step{
		{Args: "install --no-wait --set agent.create=true", Says: "is applied"},
		{Args: "uninstall --purge --yes", Says: "Muster is removed"},
	})
}

func there(ctx context.Context, t *testing.T, server client.Client, o client.Object, name string) bool {
	t.Helper()
	err := server.Get(ctx, client.ObjectKey{Namespace: v1alpha1.SystemNamespace, Name: name}, o)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return err == nil
}

// holder makes a pod that has a GPU of the agent of node one.
func holder(t *testing.T, server client.Client) *corev1.Pod {
	t.Helper()
	ctx := t.Context()
	name := "gpu"
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "trains"}, Spec: corev1.PodSpec{
		SchedulerName: v1alpha1.SchedulerName, Containers: []corev1.Container{{Name: "c", Image: "i"}},
		ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}},
	}}
	if err := server.Create(ctx, pod); err != nil {
		t.Fatal(err)
	}
	binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "one"}}
	if err := server.SubResource("binding").Create(ctx, pod, binding); err != nil {
		t.Fatal(err)
	}
	claim := inventory.Claim(pod, name, 1, nil)
	claim.OwnerReferences = nil
	if err := server.Create(ctx, claim); err != nil {
		t.Fatal(err)
	}
	to, err := inventory.Allocation("one", []inventory.GPU{{Driver: inventory.Driver, Pool: "one", Name: "gpu-0"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	claim.Status.Allocation = to
	claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: pod.UID}}
	if err := server.Status().Update(ctx, claim); err != nil {
		t.Fatal(err)
	}
	return pod
}

// TestWithoutMuster: messages of verbs on a cluster without Muster, without a manager, and after a
// purge, whose advice can be followed.
func TestWithoutMuster(t *testing.T) {
	server := rehearsal.StartCluster(t)
	ctx, dir := t.Context(), t.TempDir()
	// A kubeconfig beside the data of an embedded Muster would be that one's.
	text, err := os.ReadFile(server.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	copied, ada := filepath.Join(dir, "admin.kubeconfig"), filepath.Join(dir, "ada.kubeconfig")
	if err := os.WriteFile(copied, text, 0o600); err != nil {
		t.Fatal(err)
	}
	admin := server.As(t, copied)
	const absent = "Muster is not installed on this cluster: muster install"
	var before []rehearsal.Step
	for _, verb := range []string{"get", "node list", "queue list", "why x", "top", "delete x", "pipeline list", "node add one", "user add ada"} {
		before = append(before, rehearsal.Step{Args: verb, Code: 3, Says: absent})
	}
	rehearsal.AddNode(t, server.Client, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, 8)
	const idle = "no manager of Muster has run on this cluster yet"
	admin.Run(t, append(before,
		rehearsal.Step{Args: "get pods", Says: "There are no pods"},
		rehearsal.Step{Args: "install --no-wait --set manager.replicas=0", Says: "is applied"},
		rehearsal.Step{Args: "get", Says: idle},
		rehearsal.Step{Args: "node add one", Says: idle},
		rehearsal.Step{Args: "user add ada --lifetime 1h --file " + ada, Says: idle},
		rehearsal.Step{Args: "delete x", Code: 3, Says: idle},
	))
	rehearsal.Eventually(t, "ada may read the lease", func(ctx context.Context) bool {
		err := server.As(t, ada).Client.Get(ctx, client.ObjectKey{Namespace: v1alpha1.SystemNamespace, Name: fencing.LeaseName}, &coordinationv1.Lease{})
		return apierrors.IsNotFound(err)
	})
	server.As(t, ada).Run(t, []rehearsal.Step{{Args: "get", Says: idle}})
	who, seconds, at := "one", int32(15), metav1.NewMicroTime(time.Now().Add(-3*time.Hour-time.Minute))
	beat := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.SystemNamespace, Name: fencing.LeaseName},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &who, LeaseDurationSeconds: &seconds, RenewTime: &at}}
	if err := server.Client.Create(ctx, beat); err != nil {
		t.Fatal(err)
	}
	server.As(t, ada).Run(t, []rehearsal.Step{{Args: "get", Says: "no manager of Muster has run on this cluster for 3h"}})
	admin.Run(t, []rehearsal.Step{
		{Args: "uninstall --purge --yes", Says: "1 users (ada), each with a namespace, role bindings and a ClusterRoleBinding muster-names-NAME"},
		{Args: "node list", Code: 3, Says: absent},
		{Args: "node remove one", Says: "node one removed"},
		{Args: "user list", Says: "ada"},
		{Args: "user remove ada --yes", Says: "ada is removed"},
		{Args: "user list", Says: "There are no users"},
	})
}
