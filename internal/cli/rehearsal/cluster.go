//go:build embedded

package rehearsal

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// StartCluster starts a server as a Kubernetes of others is: upstream's API and
// controllers, and nothing of Muster's.
func StartCluster(t *testing.T) *Server {
	t.Helper()
	s := Start(t)
	ctx := t.Context()
	crds := &unstructured.UnstructuredList{}
	crds.SetAPIVersion("apiextensions.k8s.io/v1")
	crds.SetKind("CustomResourceDefinitionList")
	if err := s.Client.List(ctx, crds); err != nil {
		t.Fatal(err)
	}
	doomed := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.SystemNamespace}}}
	for i := range crds.Items {
		doomed = append(doomed, &crds.Items[i])
	}
	for _, object := range doomed {
		if err := s.Client.Delete(ctx, object); err != nil {
			t.Fatal(err)
		}
	}
	for _, object := range doomed {
		Eventually(t, object.GetName()+" is gone", func(ctx context.Context) bool {
			return apierrors.IsNotFound(s.Client.Get(ctx, client.ObjectKeyFromObject(object), object))
		})
	}
	return s
}

// As is the same server as somebody else meets it, by their kubeconfig.
func (s *Server) As(t *testing.T, kubeconfig string) *Server {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	other := &Server{Config: config, Kubeconfig: kubeconfig}
	if other.Client, err = client.NewWithWatch(config, client.Options{Scheme: s.Client.Scheme(), Mapper: s.Client.RESTMapper()}); err != nil {
		t.Fatal(err)
	}
	return other
}

// Eventually waits until something is true, for a minute at most.
func Eventually(t *testing.T, what string, is func(context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !is(ctx) {
		select {
		case <-ctx.Done():
			t.Fatalf("waited in vain: %s", what)
		case <-tick.C:
		}
	}
}
