package registry

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// earlier is a key of an earlier version, in a Secret of its own.
type earlier struct {
	secret *corev1.Secret
	key    Key
}

// earlier lists the keys of an earlier version, by ID. It needs the right to list all
// Secrets of the vault's namespace, which administrators have and the manager has not.
func (v *Vault) earlier(ctx context.Context) (map[string]earlier, error) {
	all := &corev1.SecretList{}
	if err := v.Client.List(ctx, all, client.InNamespace(v.Namespace), client.HasLabels{label}); err != nil {
		return nil, fmt.Errorf("listing the access keys of an earlier version: %w", err)
	}
	keys := map[string]earlier{}
	for i := range all.Items {
		s := &all.Items[i]
		if k, ok := read(s); ok && validID(k.ID) && s.Name == object(k.ID) {
			keys[k.ID] = earlier{s, k}
		}
	}
	return keys, nil
}

// Copy copies the keys of an earlier version into the shards, and keeps their Secrets, so
// that managers of both versions know the keys. It returns the number of keys of the
// earlier version. An administrator calls it before an upgrade. Copy is idempotent.
func (v *Vault) Copy(ctx context.Context) (int, error) {
	keys, err := v.earlier(ctx)
	if err != nil || len(keys) == 0 {
		return 0, err
	}
	return len(keys), v.copy(ctx, keys)
}

// copy copies keys into their shards.
func (v *Vault) copy(ctx context.Context, keys map[string]earlier) error {
	shards, err := v.copies(ctx, keys)
	if err != nil {
		return err
	}
	for i, entries := range shards {
		if len(entries) == 0 {
			continue
		}
		err := v.change(ctx, i, func(data map[string][]byte) error {
			for id, e := range entries {
				if _, there := data[id]; there {
					continue // copied before, and perhaps deleted since
				}
				if err := put(data, id, e); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("copying the access keys of an earlier version: %w", err)
		}
	}
	return nil
}

// copies returns entries by shard. It leaves out keys that have ended, and keys of a namespace
// that was removed since.
func (v *Vault) copies(ctx context.Context, keys map[string]earlier) ([Shards]map[string]entry, error) {
	var shards [Shards]map[string]entry
	namespaces := map[string]*metav1.PartialObjectMetadata{} // nil: there is none
	for id, was := range keys {
		k := was.key
		there, asked := namespaces[k.Namespace]
		if !asked {
			var err error
			if there, err = v.namespace(ctx, k.Namespace); client.IgnoreNotFound(err) != nil {
				return shards, err
			}
			namespaces[k.Namespace] = there
		}
		if there == nil || there.CreationTimestamp.After(k.Made) || k.over(v.now()) {
			continue
		}
		i := shardOf(id)
		if shards[i] == nil {
			shards[i] = map[string]entry{}
		}
		shards[i][id] = entry{Secret: k.Secret, Namespace: k.Namespace, NamespaceUID: there.UID, User: k.User, Groups: k.Groups, Made: k.Made, Ends: k.Ends, Earlier: copied}
	}
	return shards, nil
}

// Settle moves the keys of an earlier version for good, once no manager of that version
// runs any more, and returns the number of Secrets that it removed. After an
// interruption, call it again: it loses no key and restores no deleted key.
//
// 1. Copy the keys that earlier managers made meanwhile.
// 2. Remove copies without a Secret: an earlier manager has deleted the key.
// 3. Settle the other copies: from now on only the copy counts.
// 4. Remove the Secrets.
func (v *Vault) Settle(ctx context.Context) (int, error) {
	keys, err := v.earlier(ctx)
	if err != nil {
		return 0, err
	}
	if err := v.copy(ctx, keys); err != nil {
		return 0, err
	}
	for i := range Shards {
		err := v.change(ctx, i, func(data map[string][]byte) error { return settle(data, keys) })
		if err != nil {
			return 0, fmt.Errorf("moving the access keys of an earlier version: %w", err)
		}
	}
	removed := 0
	for id, was := range keys {
		err := v.Client.Delete(ctx, was.secret, client.Preconditions{UID: &was.secret.UID})
		if client.IgnoreNotFound(err) != nil {
			return removed, fmt.Errorf("removing the earlier Secret of access key %s: %w", id, err)
		}
		removed++
	}
	return removed, nil
}

// settle settles the copies in the data of a shard. The argument keys holds the keys that
// still have their Secret.
func settle(data map[string][]byte, keys map[string]earlier) error {
	for id, text := range data {
		e, ok := decode(id, text)
		if !ok || e.Earlier != copied {
			continue
		}
		if _, there := keys[id]; !there {
			delete(data, id)
			continue
		}
		e.Earlier = settled
		if err := put(data, id, e); err != nil {
			return err
		}
	}
	return nil
}
