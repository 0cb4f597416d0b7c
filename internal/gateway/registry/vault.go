package registry

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/internal/gateway"
)

const (
	// lookAgain is the least time between two looks at all keys: who comes with a key
	// that nobody knows waits for the next one, and costs nobody anything.
	lookAgain = time.Second
	// mostStrangers is how many wait at once with a key that nobody knows: each has one
	// of the requests that are served at once.
	mostStrangers = 16
	// MostKeys is how many keys a user may have for a namespace.
	MostKeys = 20
)

// ErrTooMany is wrapped by errors of users who have [MostKeys] keys.
var ErrTooMany = errors.New("there are too many access keys")

// ErrNotYours is wrapped by errors of who would remove another's key.
var ErrNotYours = errors.New("the access key is another user's")

// Vault keeps the access keys of all namespaces in one, whose Secrets nobody but the
// manager and administrators may see. It may be used by many at once; any number may be
// open of one namespace.
type Vault struct {
	// Client reads from the API server itself.
	Client client.Client
	// Namespace is where the Secrets are.
	Namespace string
	// Now is the clock. Default: time.Now.
	Now func() time.Time

	looking sync.Mutex // held while keys are looked at
	mu      sync.Mutex
	known   map[string]Key
	looked  time.Time
	// strangers is how many wait with a key that is not in known.
	strangers int
}

func (v *Vault) now() time.Time {
	if v.Now == nil {
		return time.Now()
	}
	return v.Now()
}

// Make makes a key: of k, the namespace, the user, the groups and the end are taken.
// The error wraps [ErrTooMany] where the user has too many.
func (v *Vault) Make(ctx context.Context, k Key) (Key, error) {
	there, err := v.List(ctx, k.Namespace)
	if err != nil {
		return Key{}, err
	}
	has := 0
	for i := range there {
		if there[i].User == k.User {
			has++
		}
	}
	if has >= MostKeys {
		return Key{}, fmt.Errorf("%w: %s has %d for namespace %s, which is as many as there may be: `muster data key delete` removes one", ErrTooMany, k.User, has, k.Namespace)
	}
	return store(ctx, v.Client, v.Namespace, fresh(k))
}

// List are the keys of a namespace without their secrets, in the order of users, then
// of when they were made. Those that have ended are removed.
func (v *Vault) List(ctx context.Context, namespace string) ([]Key, error) {
	all, err := list(ctx, v.Client, client.InNamespace(v.Namespace), client.MatchingLabels{ofLabel: namespace})
	if err != nil {
		return nil, err
	}
	var good []Key
	for i := range all {
		switch k := all[i]; {
		case k.Namespace != namespace: // its label was changed
		case k.over(v.now()):
			err = errors.Join(err, client.IgnoreNotFound(v.Client.Delete(ctx, v.secret(k.ID))))
		default:
			good = append(good, k)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("removing access keys that have ended: %w", err)
	}
	return good, nil
}

// Delete removes a key of a user. The error wraps [fs.ErrNotExist] where there is none
// in that namespace, and [ErrNotYours] where it is of somebody else.
func (v *Vault) Delete(ctx context.Context, namespace, id, user string) error {
	s := v.secret(id)
	err := v.Client.Get(ctx, client.ObjectKeyFromObject(s), s)
	k, is := read(s)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsInvalid(err), err == nil && (!is || k.ID != id || k.Namespace != namespace):
		return fmt.Errorf("access key %s: %w", id, fs.ErrNotExist)
	case err != nil:
		return fmt.Errorf("reading access key %s: %w", id, err)
	case k.User != user:
		return fmt.Errorf("access key %s is of %s, and you are %s: %w", id, k.User, user, ErrNotYours)
	}
	if err := v.Client.Delete(ctx, s, client.Preconditions{UID: &s.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting access key %s: %w", id, err)
	}
	return nil
}

func (v *Vault) secret(id string) *corev1.Secret {
	s := &corev1.Secret{}
	s.Namespace, s.Name = v.Namespace, object(id)
	return s
}

// find is a key that is good. The error wraps [gateway.ErrNoKey] where there is none,
// and [gateway.ErrBusy] where too many ask for what nobody knows.
func (v *Vault) find(ctx context.Context, id string) (Key, error) {
	k, known := v.recall(id, keyCounts)
	if !known {
		in, leave := v.enter(id)
		if !in {
			return Key{}, gateway.ErrBusy
		}
		defer leave()
		if err := v.look(ctx, id); err != nil {
			return Key{}, err
		}
		k, _ = v.recall(id, 2*keyCounts) // as it was found a moment ago
	}
	if k.ID != id || k.over(v.now()) {
		return Key{}, gateway.ErrNoKey
	}
	return k, nil
}

// recall is a key that was found within a time.
func (v *Vault) recall(id string, within time.Duration) (Key, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	k, is := v.known[id]
	return k, is && v.now().Sub(v.looked) < within
}

// enter lets somebody wait for a look at all keys, who has to leave then: always whose
// key was there at the last one, and everybody before the first; others if they are few.
func (v *Vault) enter(id string) (in bool, leave func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, was := v.known[id]; was || v.known == nil {
		return true, func() {}
	}
	if v.strangers >= mostStrangers {
		return false, nil
	}
	v.strangers++
	return true, func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.strangers--
	}
}

// look looks at all keys, unless somebody else just has and found this one. Between
// two looks is some time, however many ask.
func (v *Vault) look(ctx context.Context, id string) error {
	came := v.now()
	v.looking.Lock()
	defer v.looking.Unlock()
	if _, known := v.recall(id, keyCounts); known {
		return nil
	}
	v.mu.Lock()
	seen, pause := v.looked.After(came), lookAgain-v.now().Sub(v.looked)
	v.mu.Unlock()
	if seen {
		return nil // somebody else has looked meanwhile
	}
	if pause > 0 {
		timer := time.NewTimer(min(pause, lookAgain))
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		}
	}
	began := v.now()
	all := &corev1.SecretList{}
	if err := v.Client.List(ctx, all, client.InNamespace(v.Namespace), client.HasLabels{label}); err != nil {
		return fmt.Errorf("looking for an access key: %w", err)
	}
	known := make(map[string]Key, len(all.Items))
	for i := range all.Items {
		if k, ok := read(&all.Items[i]); ok && all.Items[i].Name == object(k.ID) {
			known[k.ID] = k
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.known, v.looked = known, began
	return nil
}
