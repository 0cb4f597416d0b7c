package door

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/backend"
)

// mostLeases is how many leases a namespace has at a time, about: every session and
// every reader has one, and replicas of the manager count on their own.
const mostLeases = 10_000

// lookAgain is how long leases are not listed anew where there is no room for another.
const lookAgain = 10 * time.Second

// leases knows the leases of namespaces, to bound how many they have: leases count for
// no quota of bytes.
type leases struct {
	most int
	now  func() time.Time

	mu sync.Mutex
	by map[string]*leased
}

// leased are the leases of one namespace.
type leased struct {
	mu     sync.Mutex
	keys   map[string]bool
	looked time.Time
}

func newLeases(most int, now func() time.Time) *leases {
	return &leases{most: most, now: now, by: map[string]*leased{}}
}

func (l *leases) of(namespace string) *leased {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.by[namespace]
	if n == nil {
		n = &leased{}
		l.by[namespace] = n
	}
	return n
}

// put stores a lease of a namespace, unless it is one too many.
func (l *leases) put(ctx context.Context, objects backend.Backend, namespace, key string, content []byte) error {
	if err := l.admit(ctx, objects, namespace, key); err != nil {
		return err
	}
	return objects.Put(ctx, key, content)
}

// admit counts a lease that is about to be stored.
func (l *leases) admit(ctx context.Context, objects backend.Backend, namespace, key string) error {
	n := l.of(namespace)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.keys[key] {
		return nil
	}
	// Some may have been removed by others: the collector, or another replica.
	if n.keys == nil || len(n.keys) >= l.most && l.now().Sub(n.looked) >= lookAgain {
		keys := map[string]bool{}
		err := objects.List(ctx, data.LeasePrefix, func(i backend.Info) error {
			keys[i.Key] = true
			return nil
		})
		if err != nil {
			return err
		}
		n.keys, n.looked = keys, l.now()
	}
	if len(n.keys) >= l.most && !n.keys[key] {
		return &Refusal{Status: http.StatusTooManyRequests, RetryAfter: lookAgain,
			Text: "namespace " + namespace + " has " + strconv.Itoa(len(n.keys)) + " leases of data, as many as there may be: every session and every reader has one, until it ends or is silent for long: end some, or try again later"}
	}
	n.keys[key] = true
	return nil
}

// remove removes a lease.
func (l *leases) remove(ctx context.Context, objects backend.Backend, namespace, key string) error {
	if err := objects.Delete(ctx, key); err != nil {
		return err
	}
	n := l.of(namespace)
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.keys, key)
	return nil
}
