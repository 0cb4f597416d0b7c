package origin

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestOriginsNeverAnswerWithTheFirst delays a read, changes the Placement, and asks
// again: a call during a read gets the result of the next read.
func TestOriginsNeverAnswerWithTheFirst(t *testing.T) {
	var o Reader
	key := types.NamespacedName{Namespace: "default", Name: "resnet-1"}
	var version atomic.Int64
	version.Store(1)
	begun, proceed := make(chan struct{}, 2), make(chan struct{})
	get := func(context.Context) (*metav1.PartialObjectMetadata, error) {
		m := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Generation: version.Load()}}
		begun <- struct{}{}
		<-proceed
		return m, nil
	}
	var answers [2]int64
	var wg sync.WaitGroup
	ask := func(i int) {
		wg.Go(func() {
			if m, err := o.read(t.Context(), key, get); err == nil {
				answers[i] = m.Generation
			}
		})
	}
	ask(0)
	<-begun
	version.Store(2)
	ask(1)
	<-begun // a read of its own has begun while the first is still under way
	close(proceed)
	wg.Wait()
	if answers != [2]int64{1, 2} {
		t.Fatalf("answers %v, want what was there when each asked: [1 2]", answers)
	}
}

// TestOriginsShareReads asks for many members of one gang at once.
func TestOriginsShareReads(t *testing.T) {
	const members = 100
	var o Reader
	key := types.NamespacedName{Namespace: "default", Name: "resnet-1"}
	var reads atomic.Int64
	get := func(context.Context) (*metav1.PartialObjectMetadata, error) {
		reads.Add(1)
		return &metav1.PartialObjectMetadata{}, nil
	}
	var wg sync.WaitGroup
	for range members {
		wg.Go(func() {
			if _, err := o.read(t.Context(), key, get); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := reads.Load(); n > members/4 {
		t.Errorf("%d reads for %d members that came together", n, members)
	}
}

// TestOriginsOutliveTheReader ends the pod whose turn it is to read: another
// that waits with it reads instead.
func TestOriginsOutliveTheReader(t *testing.T) {
	var o Reader
	key := types.NamespacedName{Namespace: "default", Name: "resnet-1"}
	first, end := context.WithCancel(t.Context())
	begun := make(chan struct{})
	get := func(ctx context.Context) (*metav1.PartialObjectMetadata, error) {
		if ctx.Err() != nil {
			close(begun)
			return nil, ctx.Err()
		}
		return &metav1.PartialObjectMetadata{}, nil
	}
	r, _, mine := o.join(key)
	if !mine {
		t.Fatal("nobody else asked")
	}
	second := make(chan error, 1)
	go func() {
		_, err := o.read(t.Context(), key, get)
		second <- err
	}()
	end()
	o.carryOut(first, key, r, time.Millisecond, get)
	<-begun
	if err := <-second; err != nil || r.err == nil {
		t.Fatalf("the second pod: %v; the first: %v, which has ended", err, r.err)
	}
}
