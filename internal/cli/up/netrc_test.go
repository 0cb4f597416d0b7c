package up

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// TestNetrcOf: the Secret of the job's namespace is read, and no other.
func TestNetrcOf(t *testing.T) {
	secret := func(namespace, name, key, text string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{key: []byte(text)}}
	}
	reader := fake.NewClientBuilder().WithObjects(
		secret("lab", "index", "netrc", "machine x.test login a password b"), secret("other", "theirs", "netrc", "x"), secret("lab", "token", "token", "x"), secret("lab", "long", "netrc", strings.Repeat("x", maxNetrc+1)),
	).Build()
	for name, c := range map[string]struct{ want, says string }{
		"lab/index":  {"machine x.test login a password b", ""},
		"lab/theirs": {"", "no Secret theirs with the key netrc in namespace lab"},
		"lab/token":  {"", "no Secret token with the key netrc"},
		"lab/long":   {"", "65536 are allowed"},
	} {
		got, err := netrcOf(t.Context(), reader, name)
		if got != c.want || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
