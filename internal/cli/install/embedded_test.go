//go:build embedded

package install_test

import (
	"context"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/person"
	"github.com/muster-dev/muster/internal/cli/rehearsal"
)

// TestLife installs, installs again, removes, and removes for good.
func TestLife(t *testing.T) {
	server := rehearsal.StartCluster(t)
	ctx := t.Context()
	server.Run(t, []rehearsal.Step{
		{Args: "uninstall --yes", Code: 3, Says: "this cluster has no objects that muster install made"},
		{Args: "install --set manager.replicas=many", Code: 1, Says: "manager/replicas"},
		{Args: "install --set nonsense=1", Code: 1, Says: "nonsense"},
		{Args: "install --set store.persistentVolumeClaim=code", Code: 1, Says: "Set agent.create=true beside store"},
		{Args: "install --dry-run", Says: "nothing was changed"},
		{Args: "install -o yaml", Says: "kind: MutatingAdmissionPolicy"},
	})
	if err := server.Client.Get(ctx, client.ObjectKey{Name: v1alpha1.SystemNamespace}, &corev1.Namespace{}); err == nil {
		t.Fatal("--dry-run or -o yaml wrote something")
	}
	server.Run(t, []rehearsal.Step{
		{Args: "install --no-wait", Says: "is applied"},
		{Args: "install --no-wait", Says: " again is applied"},
	})
	before := &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: v1alpha1.SystemNamespace, Name: "muster-manager"}
	if err := server.Client.Get(ctx, key, before); err != nil {
		t.Fatal(err)
	}
	if before.Generation != 1 {
		t.Errorf("installed twice, the Deployment is of generation %d", before.Generation)
	}
	server.Run(t, []rehearsal.Step{
		{Args: "install --no-wait --set policies.create=false", Says: "is applied"},
		{Args: "install --dry-run", Says: "with these values of the last installation: policies.create"},
		{Args: "install --dry-run --reset-values", Says: "create     ValidatingAdmissionPolicy muster-queues"},
		{Args: "install --no-wait --reset-values", Says: "is applied"},
		{Args: "install --dry-run", Says: "unchanged  NetworkPolicy muster-system/muster-node"},
		// No kubelet is here: the manager never gets ready, and that is said.
		{Args: "install --timeout 1s", Code: 1, Says: "0 of 2 managers ready"},
	})
	if err := server.Client.Create(ctx, &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "vision"}}); err != nil {
		t.Fatal(err)
	}
	server.Run(t, []rehearsal.Step{
		{Args: "uninstall", Code: 2, Says: "give --yes"},
		{Args: "uninstall --dry-run", Says: "would be removed"},
		{Args: "uninstall --yes", Says: "0 jobs and 2 queues"},
		{Args: "queue list", Says: "vision"},
		{Args: "install --no-wait", Says: "is applied"},
		{Args: "uninstall --purge --yes", Says: "Muster is removed"},
		{Args: "uninstall --purge --yes", Code: 3, Says: "this cluster has no objects that muster install made"},
	})
	rehearsal.Eventually(t, "the namespace is gone", func(ctx context.Context) bool {
		return server.Client.Get(ctx, client.ObjectKey{Name: v1alpha1.SystemNamespace}, &corev1.Namespace{}) != nil
	})
}

// TestRefusals is about everything that keeps muster install from writing.
func TestRefusals(t *testing.T) {
	embedded := rehearsal.Start(t)
	embedded.Run(t, []rehearsal.Step{
		{Args: "install --no-wait", Code: 1, Says: "this is an embedded Muster"},
		{Args: "uninstall --yes --purge", Code: 1, Says: "this is an embedded Muster"},
		{Args: "run --detach --name mnist --code none -- true", Says: "mnist"},
		// The API server of an embedded Muster knows everybody by one name.
		{Args: "describe mnist", Says: person.Name()},
	})
	server := rehearsal.StartCluster(t)
	ctx := t.Context()
	t.Run("somebody else's objects", func(t *testing.T) {
		foreign := []client.Object{
			crd("queues.muster.dev", "queues", "Queue"),
			&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "muster-view"}},
		}
		for _, o := range foreign {
			if err := server.Client.Create(ctx, o); err != nil {
				t.Fatal(err)
			}
		}
		server.Run(t, []rehearsal.Step{
			{Args: "install --no-wait", Code: 1, Says: "CustomResourceDefinition queues.muster.dev is there and is not Muster's"},
			{Args: "install --no-wait", Code: 1, Says: "ClusterRole muster-view is there and is not Muster's"},
			{Args: "uninstall --yes --purge", Code: 3, Says: "queues.muster.dev (not made by muster install)"},
		})
		for _, o := range foreign {
			if err := server.Client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
				t.Errorf("%s was touched: %v", o.GetName(), err)
			}
			if err := server.Client.Delete(ctx, o); err != nil {
				t.Fatal(err)
			}
		}
		rehearsal.Eventually(t, "the kind is gone", func(ctx context.Context) bool {
			return server.Client.Get(ctx, client.ObjectKeyFromObject(foreign[0]), foreign[0]) != nil
		})
	})
	t.Run("a newer kind", func(t *testing.T) {
		server.Run(t, []rehearsal.Step{{Args: "install --no-wait", Says: "is applied"}})
		newer := &unstructured.Unstructured{}
		newer.SetAPIVersion("apiextensions.k8s.io/v1")
		newer.SetKind("CustomResourceDefinition")
		if err := server.Client.Get(ctx, client.ObjectKey{Name: "queues.muster.dev"}, newer); err != nil {
			t.Fatal(err)
		}
		versions, _, _ := unstructured.NestedSlice(newer.Object, "spec", "versions")
		path := []string{"schema", "openAPIV3Schema", "properties", "spec", "properties", "tomorrow"}
		if err := unstructured.SetNestedMap(versions[0].(map[string]any), map[string]any{"type": "string"}, path...); err != nil {
			t.Fatal(err)
		}
		if err := unstructured.SetNestedSlice(newer.Object, versions, "spec", "versions"); err != nil {
			t.Fatal(err)
		}
		if err := server.Client.Update(ctx, newer); err != nil {
			t.Fatal(err)
		}
		server.Run(t, []rehearsal.Step{{Args: "install --no-wait", Says: "newer than this program: it has v1alpha1 spec.tomorrow"}})
		if err := server.Client.Get(ctx, client.ObjectKey{Name: "queues.muster.dev"}, newer); err != nil {
			t.Fatal(err)
		}
		if text, _ := newer.MarshalJSON(); !strings.Contains(string(text), "tomorrow") {
			t.Error("the newer kind was overwritten")
		}
	})
}

// crd is a kind of somebody else's.
func crd(name, plural, kind string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"group": strings.TrimPrefix(name, plural+"."), "scope": "Cluster",
			"names": map[string]any{"plural": plural, "kind": kind},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}}
}
