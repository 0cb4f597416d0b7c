package registry

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/internal/gateway"
)

const (
	// lookAgain is the minimum time between two reads of all keys. A request with an
	// unknown key waits for the next read, and so adds no read.
	lookAgain = time.Second
	// mostStrangers bounds the waiting requests with unknown keys. Each of them uses one
	// of the concurrent requests of the gateway.
	mostStrangers = 16
	// MostKeys is how many keys a user may have for a namespace.
	MostKeys = 20
	// mostOfNamespace bounds the keys of all users for a namespace, and mostSizeOfNamespace
	// their bytes: an eighth of the capacity of all shards.
	mostOfNamespace     = 500
	mostSizeOfNamespace = Shards * mostOfShard / 8
)

// ErrTooMany is wrapped by the error for a user with [MostKeys] keys, and for a namespace with
// too many keys.
var ErrTooMany = errors.New("there are too many access keys")

// ErrNotYours is wrapped by the error for a user who tries to delete another user's key.
var ErrNotYours = errors.New("the access key is another user's")

// Vault keeps the access keys of all namespaces in a fixed number of Secrets of one
// namespace, the shards, which only the manager and administrators may read. It is safe
// for concurrent use, also by several processes with the same namespace.
type Vault struct {
	// Client reads from the API server itself.
	Client client.Client
	// Namespace is the namespace of the shards.
	Namespace string
	// Now is the clock. Default: time.Now.
	Now func() time.Time

	writing [Shards]sync.Mutex // held while a shard is changed
	looking sync.Mutex         // held while keys are looked at
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

// Make makes a key for the namespace, the user, the groups and the end in k. The error
// wraps [ErrTooMany] if the user or the namespace has too many keys, and [ErrFull] if no
// shard has room.
func (v *Vault) Make(ctx context.Context, k Key) (Key, error) {
	if err := checkGroups(k); err != nil {
		return Key{}, err
	}
	namespace, err := v.namespace(ctx, k.Namespace)
	if err != nil {
		return Key{}, err
	}
	if err := v.bound(ctx, k, namespace.UID, 1); err != nil {
		return Key{}, err
	}
	k.Made = v.now().UTC().Truncate(time.Second)
	made, err := v.place(ctx, k, namespace.UID)
	if errors.Is(err, ErrFull) {
		if err = v.Sweep(ctx); err == nil {
			made, err = v.place(ctx, k, namespace.UID)
		}
	}
	if err != nil {
		return Key{}, err
	}
	// Other requests may have made keys at the same time. A request that finds too many keys
	// deletes its own key.
	if err := v.bound(ctx, k, namespace.UID, 0); err != nil {
		whole := context.WithoutCancel(ctx)
		return Key{}, errors.Join(err, v.Delete(whole, made.Namespace, made.ID, made.User))
	}
	return made, nil
}

// bound returns an error if a namespace, or a user in it, would have too many keys after more
// new keys.
func (v *Vault) bound(ctx context.Context, k Key, uid types.UID, more int) error {
	all, err := v.of(ctx, k.Namespace, uid)
	if err != nil {
		return err
	}
	has, size := more, 0
	for id, e := range all {
		size += len(id) + e.size()
		if e.User == k.User {
			has++
		}
	}
	switch {
	case has > MostKeys:
		return fmt.Errorf("%w: %s has %d for namespace %s, and may have no more: delete one with `muster data key delete`", ErrTooMany, k.User, has-1, k.Namespace)
	case len(all)+more > mostOfNamespace || size > mostSizeOfNamespace:
		return fmt.Errorf("%w: namespace %s has %d, of %d bytes, and may have %d, of %d bytes: its users can delete keys that they do not need (`muster data key list`, `muster data key delete`)", ErrTooMany, k.Namespace, len(all)+more-1, size, mostOfNamespace, mostSizeOfNamespace)
	}
	return nil
}

// place gives a key its name and secret, and stores it in a shard that has room.
func (v *Vault) place(ctx context.Context, k Key, uid types.UID) (Key, error) {
	var full [Shards]error
	for range 16 * Shards { // each ID draws a shard
		k = fresh(k)
		i := shardOf(k.ID)
		if full[i] != nil {
			continue
		}
		err := v.change(ctx, i, func(data map[string][]byte) error {
			return put(data, k.ID, entry{Secret: k.Secret, Namespace: k.Namespace, NamespaceUID: uid, User: k.User, Groups: k.Groups, Made: k.Made, Ends: k.Ends})
		})
		if err == nil {
			return k, nil
		}
		if !errors.Is(err, ErrFull) {
			return Key{}, err
		}
		full[i] = err
	}
	return Key{}, fmt.Errorf("%w: Secrets %s to %s of namespace %s are full: delete keys that are not needed (`muster data key delete`), or shorten their life (data.gateway.keyLife of the chart)", ErrFull, ShardName(0), ShardName(Shards-1), v.Namespace)
}

// of returns the valid keys of a namespace with a UID.
func (v *Vault) of(ctx context.Context, namespace string, uid types.UID) (map[string]entry, error) {
	all, err := v.readAll(ctx)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(all, func(_ string, e entry) bool {
		return e.Deleted || e.Namespace != namespace || e.NamespaceUID != uid || e.over(v.now())
	})
	return all, nil
}

// List returns the keys of a namespace without their secrets, ordered by user, then by
// creation time.
func (v *Vault) List(ctx context.Context, namespace string) ([]Key, error) {
	there, err := v.namespace(ctx, namespace)
	if err != nil {
		return nil, err
	}
	all, err := v.of(ctx, namespace, there.UID)
	if err != nil {
		return nil, err
	}
	var keys []Key
	for id, e := range all {
		e.Secret = ""
		keys = append(keys, e.key(id))
	}
	inOrder(keys)
	return keys, nil
}

// Delete removes a key of a user. The error wraps [fs.ErrNotExist] if the namespace has no
// such key, and [ErrNotYours] if the key belongs to another user.
func (v *Vault) Delete(ctx context.Context, namespace, id, user string) error {
	if !validID(id) {
		return fmt.Errorf("access key %q: %w", id, fs.ErrNotExist)
	}
	err := v.change(ctx, shardOf(id), func(data map[string][]byte) error {
		e, ok := decode(id, data[id])
		switch {
		case !ok || e.Deleted || e.Namespace != namespace:
			return fs.ErrNotExist
		case e.User != user:
			return fmt.Errorf("it belongs to %s, and you are %s: %w", e.User, user, ErrNotYours)
		}
		return forget(data, id, e)
	})
	if err != nil {
		return fmt.Errorf("deleting access key %s: %w", id, err)
	}
	return nil
}

// Sweep removes keys that have ended, and keys of removed namespaces.
func (v *Vault) Sweep(ctx context.Context) error {
	for i := range Shards {
		err := v.change(ctx, i, func(data map[string][]byte) error {
			if len(data) == 0 {
				return nil
			}
			// List the namespaces after the read of the shard. If a replica adds a key
			// from now on, the write fails, so Sweep misses no new namespace.
			living, err := v.living(ctx)
			if err != nil {
				return err
			}
			for id, text := range data {
				e, ok := decode(id, text)
				if !ok || e.Deleted || living[e.NamespaceUID] {
					continue
				}
				if err := forget(data, id, e); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("removing access keys of namespaces that are gone: %w", err)
		}
	}
	return nil
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
	known, err := v.keys(ctx)
	if err != nil {
		return fmt.Errorf("looking for an access key: %w", err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.known, v.looked = known, began
	return nil
}

// keys returns all keys of existing namespaces.
func (v *Vault) keys(ctx context.Context) (map[string]Key, error) {
	all, err := v.readAll(ctx)
	if err != nil {
		return nil, err
	}
	living, err := v.living(ctx) // after the keys, so that it includes their namespaces
	if err != nil {
		return nil, err
	}
	known := make(map[string]Key, len(all))
	for id, e := range all {
		if !e.Deleted && living[e.NamespaceUID] {
			known[id] = e.key(id)
		}
	}
	return known, nil
}
