package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/ref"
	"github.com/muster-dev/muster/internal/dataset"
	"github.com/muster-dev/muster/internal/gateway"
)

const (
	// keyCounts is for how long a key is known, also after it was deleted.
	keyCounts = 5 * time.Second
	// rightCounts is for how long it is known what a user may do.
	rightCounts = 10 * time.Second
	// remembered is how many keys, or rights, are known at once.
	remembered = 10_000
)

// Registry asks Kubernetes. Client is required; it reads from the API server itself.
type Registry struct {
	Client client.Client
	// Measure says how large a commit of a namespace is that a branch is about to be at.
	Measure func(ctx context.Context, namespace string, commit digest.ID) (dataset.Size, error)
	// Vault has the keys. Nil: they are in the namespaces whose datasets they open,
	// where whoever may write Secrets can make some for any user.
	Vault *Vault
	// Now is the clock. Default: time.Now.
	Now func() time.Time

	once   singleflight.Group
	mu     sync.Mutex
	keys   map[string]known[gateway.Grant]
	rights map[right]known[bool]
}

var (
	_ gateway.Catalog = (*Registry)(nil)
	_ gateway.Keyring = (*Registry)(nil)
)

// known is what was found out, and until when that counts.
type known[T any] struct {
	is    T
	err   error
	until time.Time
}

// right is a thing that a user may do or not.
type right struct {
	user, groups, namespace, dataset string
	verb                             gateway.Verb
}

func (r *Registry) now() time.Time {
	if r.Now == nil {
		return time.Now()
	}
	return r.Now()
}

// Datasets implements [gateway.Catalog].
func (r *Registry) Datasets(ctx context.Context, namespace string) ([]gateway.Dataset, error) {
	list := &v1alpha1.DatasetList{}
	if err := r.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing datasets: %w", err)
	}
	all := make([]gateway.Dataset, len(list.Items))
	for i := range list.Items {
		all[i] = gateway.Dataset{Name: list.Items[i].Name, Made: list.Items[i].CreationTimestamp.Time}
	}
	slices.SortFunc(all, func(a, b gateway.Dataset) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// Heads implements [gateway.Catalog].
func (r *Registry) Heads(namespace, name string) ref.Heads {
	object := &dataset.Heads{Client: r.Client, Namespace: namespace, Name: name}
	if r.Measure != nil {
		object.Measure = func(ctx context.Context, commit digest.ID) (dataset.Size, error) {
			return r.Measure(ctx, namespace, commit)
		}
	}
	return heads{object}
}

// heads say in the gateway's words that there is no dataset.
type heads struct{ *dataset.Heads }

func missing(err error) error {
	if _, ok := errors.AsType[*dataset.MissingError](err); ok {
		return fmt.Errorf("%w: %w", gateway.ErrNoDataset, err)
	}
	return err
}

// Get implements [ref.Heads].
func (h heads) Get(ctx context.Context, name ref.Name) (digest.ID, error) {
	id, err := h.Heads.Get(ctx, name)
	return id, missing(err)
}

// List implements [ref.Heads].
func (h heads) List(ctx context.Context) (map[ref.Name]digest.ID, error) {
	all, err := h.Heads.List(ctx)
	return all, missing(err)
}

// Swap implements [ref.Heads].
func (h heads) Swap(ctx context.Context, moves ...ref.Move) error {
	return missing(h.Heads.Swap(ctx, moves...))
}

// SwapSeeing implements [ref.Seer].
func (h heads) SwapSeeing(ctx context.Context, moves ...ref.Move) (map[ref.Name]digest.ID, error) {
	all, err := h.Heads.SwapSeeing(ctx, moves...)
	return all, missing(err)
}

// Grant implements [gateway.Keyring].
func (r *Registry) Grant(ctx context.Context, key string) (gateway.Grant, error) {
	if r.Vault != nil {
		k, err := r.Vault.find(ctx, key)
		return gateway.Grant{Secret: k.Secret, Namespace: k.Namespace, User: k.User, Groups: k.Groups}, err
	}
	return remember(r, &r.keys, strings.Clone(key), "key "+key, keyCounts, func() (gateway.Grant, error) { return r.find(ctx, key) })
}

// find looks for a key in all namespaces.
func (r *Registry) find(ctx context.Context, id string) (gateway.Grant, error) {
	if strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") != "" || len(id) > 63 {
		return gateway.Grant{}, gateway.ErrNoKey // nor could it be a label
	}
	list := &corev1.SecretList{}
	if err := r.Client.List(ctx, list, client.MatchingLabels{label: id}); err != nil {
		return gateway.Grant{}, fmt.Errorf("looking for an access key: %w", err)
	}
	for i := range list.Items {
		s := &list.Items[i]
		if k, ok := read(s); ok && k.ID == id && s.Name == object(id) && !k.over(r.now()) {
			return gateway.Grant{Secret: k.Secret, Namespace: s.Namespace, User: k.User, Groups: k.Groups}, nil
		}
	}
	return gateway.Grant{}, gateway.ErrNoKey
}

// May implements [gateway.Keyring].
func (r *Registry) May(ctx context.Context, g gateway.Grant, verb gateway.Verb, name string) (bool, error) {
	q := right{g.User, strings.Join(g.Groups, "\n"), g.Namespace, strings.Clone(name), verb}
	return remember(r, &r.rights, q, fmt.Sprint("right ", q), rightCounts, func() (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: g.User, Groups: g.Groups,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Group: v1alpha1.GroupVersion.Group, Resource: "datasets", Namespace: g.Namespace, Name: name, Verb: string(verb),
			},
		}}
		if err := r.Client.Create(ctx, review); err != nil {
			return false, fmt.Errorf("asking what %s may do: %w", g.User, err)
		}
		return review.Status.Allowed, nil
	})
}

// remember is what is known, or is found out, once for all who ask at the same time.
// That there is no such key is known, too; that nobody could be asked is not.
func remember[K comparable, T any](r *Registry, in *map[K]known[T], key K, name string, counts time.Duration, find func() (T, error)) (T, error) {
	r.mu.Lock()
	k, ok := (*in)[key]
	r.mu.Unlock()
	if ok && r.now().Before(k.until) {
		return k.is, k.err
	}
	asked := r.now()
	found, err, _ := r.once.Do(name, func() (any, error) { return find() })
	is, _ := found.(T)
	if err != nil && !errors.Is(err, gateway.ErrNoKey) {
		return is, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if *in == nil || len(*in) >= remembered {
		*in = map[K]known[T]{}
	}
	(*in)[key] = known[T]{is, err, asked.Add(counts)}
	return is, err
}
