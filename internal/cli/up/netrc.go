package up

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// maxNetrc is the size of the largest netrc of a build, in bytes.
const maxNetrc = 64 << 10

// netrc reads the netrc of a Secret, <namespace>/<name>, for the build of an environment.
func (m *machine) netrc(ctx context.Context, secret string) (string, error) {
	reader, err := client.New(m.plane.ManagerConfig(), client.Options{})
	if err != nil {
		return "", fmt.Errorf("reading the Secret %s: %w", secret, err)
	}
	return netrcOf(ctx, reader, secret)
}

func netrcOf(ctx context.Context, reader client.Reader, secret string) (string, error) {
	namespace, name, _ := strings.Cut(secret, "/")
	found := &corev1.Secret{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, found)
	text := string(found.Data[v1alpha1.NetrcKey])
	switch {
	case apierrors.IsNotFound(err) || err == nil && text == "":
		return "", fmt.Errorf("there is no Secret %s with the key %s in namespace %s, which environment.indexSecret names; create it, for example with: muster kubectl -n %[3]s create secret generic %[1]s --from-file=%[2]s=FILE",
			name, v1alpha1.NetrcKey, namespace)
	case err != nil:
		return "", fmt.Errorf("reading the Secret %s: %w", secret, err)
	case len(text) > maxNetrc:
		return "", fmt.Errorf("the %s of Secret %s has %d bytes, and %d are allowed", v1alpha1.NetrcKey, secret, len(text), maxNetrc)
	}
	return text, nil
}
