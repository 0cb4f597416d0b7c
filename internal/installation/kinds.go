package installation

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// Kind is how one of Muster's kinds stands on a cluster.
type Kind struct {
	Name    string
	Owner   Owner
	Version string
	// Losses are the fields that the cluster's has and this program's has not,
	// Lacks the other way round.
	Losses, Lacks []string
}

// Kinds compares every kind of Muster's on the cluster with this program's.
func (c *Cluster) Kinds(ctx context.Context) ([]Kind, error) {
	objects, err := Render(Rendering{Version: "any"})
	if err != nil {
		return nil, err
	}
	var out []Kind
	for _, o := range objects {
		if o.GetKind() != kindCRD || !isOwnKind(o) {
			continue
		}
		there, err := c.get(ctx, o)
		if err != nil {
			return nil, err
		}
		k := Kind{Name: o.GetName(), Owner: ownerOf(there)}
		if there != nil {
			k.Version = there.GetLabels()[labelVersion]
			k.Losses, k.Lacks = losses(there, o), losses(o, there)
		}
		out = append(out, k)
	}
	return out, nil
}

// isOwnKind reports that an object is none, or one of a kind that is Muster's
// own. The others are defined where nobody else does.
func isOwnKind(o *unstructured.Unstructured) bool {
	return o.GetKind() != kindCRD || strings.HasSuffix(o.GetName(), "."+v1alpha1.GroupVersion.Group)
}

// TooOld says why a server is too old, and what to do; empty if it is not.
func (s Server) TooOld() string { return tooOld(s) }

// VersionLabel is a version as a label's value holds it.
func VersionLabel(version string) string {
	version = strings.ReplaceAll(version, "+", "_")
	return strings.TrimSuffix(version[:min(63, len(version))], "-")
}
