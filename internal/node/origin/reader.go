package origin

import (
	"context"
	"errors"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
)

// Members of one gang are seen within moments of one another, and each must be
// followed by a read of their Placement. The first read waits for a moment,
// and each that follows soon for twice as long as the one before.
const (
	firstGather = time.Millisecond
	lastGather  = 32 * time.Millisecond
	// gatherFor is for how long after a read the next one is one that follows.
	gatherFor = time.Second
)

// Reader reads Placements for pods that were seen, so that one read serves all
// those that were seen before it began. Its methods may be called concurrently.
type Reader struct {
	metadata metadata.Interface

	mu    sync.Mutex
	known map[types.NamespacedName]*asked
}

// New returns a reader that asks by a client.
func New(client metadata.Interface) *Reader { return &Reader{metadata: client} }

// asked is what was asked of one Placement of late.
type asked struct {
	// next is the read that has not begun, which all who come now share; nil:
	// nobody waits for one.
	next *reading
	// reads is how many were made, the last of them at last.
	reads int
	last  time.Time
}

// reading is one read of a Placement. Its results are set once done is closed.
type reading struct {
	done chan struct{}
	have *metav1.PartialObjectMetadata
	err  error
}

// read returns what get returned, where get was called after read was.
func (o *Reader) read(ctx context.Context, key types.NamespacedName, get func(context.Context) (*metav1.PartialObjectMetadata, error)) (*metav1.PartialObjectMetadata, error) {
	for {
		r, pause, mine := o.join(key)
		if mine {
			o.carryOut(ctx, key, r, pause, get)
			return r.have, r.err
		}
		select {
		case <-r.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if r.err == nil || !errors.Is(r.err, context.Canceled) {
			return r.have, r.err
		}
		// The pod whose turn it was to read is gone: another reads.
	}
}

// join returns the read that has not begun, and whether the caller is to carry
// it out, after a pause.
func (o *Reader) join(key types.NamespacedName) (r *reading, pause time.Duration, mine bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if o.known == nil {
		o.known = map[types.NamespacedName]*asked{}
	}
	for name, at := range o.known {
		if at.next == nil && now.Sub(at.last) > gatherFor {
			delete(o.known, name)
		}
	}
	at := o.known[key]
	if at == nil {
		at = &asked{}
		o.known[key] = at
	}
	if at.next != nil {
		return at.next, 0, false
	}
	at.next = &reading{done: make(chan struct{})}
	return at.next, min(firstGather<<min(at.reads, 16), lastGather), true
}

// carryOut waits for those who come meanwhile, closes the door behind them, and
// reads.
func (o *Reader) carryOut(ctx context.Context, key types.NamespacedName, r *reading, pause time.Duration, get func(context.Context) (*metav1.PartialObjectMetadata, error)) {
	defer close(r.done)
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
	o.mu.Lock()
	at := o.known[key]
	at.next, at.last = nil, time.Now()
	at.reads++
	o.mu.Unlock()
	r.have, r.err = get(ctx)
	if r.err != nil && ctx.Err() != nil {
		r.err = context.Canceled
	}
}
