package issuer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"time"

	"github.com/muster-dev/muster/internal/cli/data/key"
	"github.com/muster-dev/muster/internal/door"
	"github.com/muster-dev/muster/internal/gateway"
	"github.com/muster-dev/muster/internal/gateway/registry"
)

// Issuer makes access keys. All fields but Bundle are required.
type Issuer struct {
	// Vault keeps the keys.
	Vault *registry.Vault
	// Life is the longest time for which a key is good.
	Life time.Duration
	// Place is the word for where keys are good: cluster or machine.
	Place string
	// Endpoint is the address of the gateway.
	Endpoint func() string
	// Bundle is the certificates that clients have to trust. Default: none.
	Bundle func(context.Context) ([]byte, error)
}

var _ door.Keys = (*Issuer)(nil)

// Make implements [door.Keys].
func (i *Issuer) Make(ctx context.Context, who door.Caller, life time.Duration) (any, error) {
	if life > i.Life {
		return nil, &door.Refusal{Status: http.StatusBadRequest, Text: fmt.Sprintf("a key for %s is asked for: %s is the longest that there is on this %s", life, i.Life, i.Place)}
	}
	if life == 0 {
		life = i.Life
	}
	var bundle []byte
	if i.Bundle != nil {
		var err error
		if bundle, err = i.Bundle(ctx); err != nil {
			return nil, err
		}
	}
	made, err := i.Vault.Make(ctx, registry.Key{
		Namespace: who.Namespace, User: who.User, Groups: who.Groups, Ends: time.Now().Add(life).Truncate(time.Second),
	})
	switch {
	case errors.Is(err, registry.ErrTooMany):
		return nil, &door.Refusal{Status: http.StatusForbidden, Text: err.Error()}
	case errors.Is(err, registry.ErrFull):
		return nil, &door.Refusal{Status: http.StatusInsufficientStorage, Text: err.Error()}
	case err != nil:
		return nil, err
	}
	it := key.ItemOf(made)
	it.Endpoint, it.Region, it.CABundle = i.Endpoint(), gateway.Region, string(bundle)
	return it, nil
}

// List implements [door.Keys].
func (i *Issuer) List(ctx context.Context, namespace string) (any, error) {
	all, err := i.Vault.List(ctx, namespace)
	items := make([]key.Item, len(all))
	for n := range all {
		items[n] = key.ItemOf(all[n])
	}
	return items, err
}

// Remove implements [door.Keys].
func (i *Issuer) Remove(ctx context.Context, who door.Caller, id string) error {
	err := i.Vault.Delete(ctx, who.Namespace, id, who.User)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &door.Refusal{Status: http.StatusNotFound, Text: fmt.Sprintf("there is no access key %s in namespace %s: `muster data key list` shows them", id, who.Namespace)}
	case errors.Is(err, registry.ErrNotYours):
		return &door.Refusal{Status: http.StatusForbidden, Text: err.Error() + ": its user removes it, or an administrator (docs/data.md says how)"}
	}
	return err
}
