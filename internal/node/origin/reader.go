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

// Members of one gang arrive within moments of one another, and each needs a read of
// their Placement after its arrival. The first read waits for firstGather. Each read that
// follows soon waits twice as long as the one before, up to lastGather.
const (
	firstGather = time.Millisecond
	lastGather  = 32 * time.Millisecond
	// gatherFor is the time after a read in which the next read counts as following.
	gatherFor = time.Second
)

// Reader reads Placements for pods. One read serves all pods that arrived before it
// began. Its methods are safe for concurrent use.
type Reader struct {
	metadata metadata.Interface

	mu    sync.Mutex
	known map[types.NamespacedName]*asked
}

// New returns a reader that uses a client.
func New(client metadata.Interface) *Reader { return &Reader{metadata: client} }

// asked has the recent reads of one Placement.
type asked struct {
	// next is the read that has not begun, for all pods that arrive now; nil if no pod
	// waits for one.
	next *reading
	// reads counts the reads. last is the time of the latest.
	reads int
	last  time.Time
}

// reading is one read of a Placement. Its results are set once done is closed.
type reading struct {
	done chan struct{}
	have *metav1.PartialObjectMetadata
	err  error
}

// read returns the result of a call of get that began after the call of read.
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
		// The context of the pod that read has ended: another pod reads.
	}
}

// join returns the read that has not begun. Mine reports whether the caller must make
// it, after the pause.
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

// carryOut waits for more pods to join, closes the read to later ones, and reads.
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
