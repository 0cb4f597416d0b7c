package gang

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/rendezvous"
)

// mostCopied is how many bytes of what all members have in common each pod may
// have a copy of: those of some 90 members on several nodes. The pods of a gang
// of a thousand would be 45 MB to write otherwise, more than all the rest.
const mostCopied = 4 << 10

// publish writes what is common to many members down once, in a ConfigMap that
// goes with the attempt's placement, and has them refer to it. Its name says
// what is in it, so that one that is there already is the same.
func (c *Controller) publish(ctx context.Context, o observed, peers *rendezvous.Table) error {
	data := peers.Common()
	size := 0
	for _, value := range data {
		size += len(value)
	}
	if size <= c.options.MostCopied || o.placement == nil {
		return nil
	}
	m, err := commonMap(o.gang, o.placement, data)
	if err != nil {
		return err
	}
	if err := c.options.Client.Create(ctx, m); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating ConfigMap %s/%s, which holds the addresses of members: %w", m.Namespace, m.Name, err)
	}
	peers.Refer(m.Name)
	return nil
}

func commonMap(g *v1alpha1.Gang, p *v1alpha1.Placement, data map[string]string) (*corev1.ConfigMap, error) {
	text, err := json.Marshal(data) // in the order of keys
	if err != nil {
		return nil, fmt.Errorf("encoding the addresses of members: %w", err)
	}
	sum := sha256.Sum256(append([]byte(p.UID), text...))
	yes, owner := true, metav1.NewControllerRef(p, v1alpha1.GroupVersion.WithKind("Placement"))
	owner.BlockOwnerDeletion = nil // the placement need not wait for it
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: g.Namespace, Name: g.Name + "-peers-" + hex.EncodeToString(sum[:6]),
			Labels:          map[string]string{v1alpha1.LabelGang: g.Name},
			OwnerReferences: []metav1.OwnerReference{*owner},
		},
		Immutable: &yes, Data: data,
	}, nil
}
