package datavolume

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data/cache"
)

// office gives orders as a test says.
type office struct {
	*stage
	mu      sync.Mutex
	given   []v1alpha1.DataOrder
	version int
	news    chan struct{}
	away    error
}

// order has the stage's next agent obey orders.
func (s *stage) order() *office {
	o := &office{stage: s, news: make(chan struct{})}
	s.orders = o
	s.end()
	s.start()
	return o
}

func (o *office) give(orders ...v1alpha1.DataOrder) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.given, o.version = orders, o.version+1
	close(o.news)
	o.news = make(chan struct{})
}

// Ahead implements [Orders].
func (o *office) Ahead(ctx context.Context, seen string) ([]v1alpha1.DataOrder, string, error) {
	for {
		o.mu.Lock()
		given, version, news, away := o.given, fmt.Sprint(o.version), o.news, o.away
		o.mu.Unlock()
		if away != nil || version != seen {
			return given, version, away
		}
		select {
		case <-ctx.Done():
			return nil, "", ctx.Err()
		case <-news:
		}
	}
}

// has reports whether the whole of a part is in the cache.
func (s *stage) has(namespace, key string) bool {
	_, here := s.server.options.Cache.Path(s.Context(), cache.Scoped(namespace, key))
	return here
}

// eventually waits until something is so.
func (s *stage) eventually(what string, so func() bool) {
	s.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(20 * time.Second); !so(); {
		select {
		case <-limit:
			s.Fatal(what)
		case <-tick.C:
		}
	}
}

// What is ordered is in the cache before any pod names it, and the pod finds it there.
func TestFetchedAhead(t *testing.T) {
	s := newStage(t)
	o := s.order()
	commit, key := s.put("team", map[string]string{"x": noise(1, 1<<20)})
	second, other := s.put("team", map[string]string{"y": "z"})
	o.give(v1alpha1.DataOrder{Namespace: "team", Commit: "nonsense"}, // a pod that names it hears why
		v1alpha1.DataOrder{Namespace: "other", Commit: commit, Key: key}, // not there
		v1alpha1.DataOrder{Namespace: "team", Commit: commit, Key: key}, v1alpha1.DataOrder{Namespace: "team", Commit: second})
	s.eventually("it is not fetched ahead", func() bool { return s.has("team", key) && s.has("team", other) })
	if s.has("other", key) {
		t.Error("another namespace has it")
	}
	before := s.stores["team"].read.Load()
	s.publish(s.request("a0", "team", commit, attributeKey, key))
	if read := s.stores["team"].read.Load() - before; read != 0 || s.reads("a0", "x") != noise(1, 1<<20) {
		t.Errorf("%d bytes were read again", read)
	}
	s.unpublish("a0")
	if left := s.kept("volumes"); len(left) != 0 {
		t.Errorf("records are left: %v", left)
	}
}

// held blocks reads of a store's packs after the first few, until let is called; begun
// is closed once one is blocked, and broken counts those that were given up.
func (s *stage) held(namespace string) (begun <-chan struct{}, broken *atomic.Int64, let func()) {
	reached, open := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(reached) })
	broken = &atomic.Int64{}
	gate := func(ctx context.Context) error {
		once()
		select {
		case <-open:
			return nil
		case <-ctx.Done():
			broken.Add(1)
			return ctx.Err()
		}
	}
	s.stores[namespace].gate.Store(&gate)
	return reached, broken, sync.OnceFunc(func() {
		s.stores[namespace].gate.Store(nil)
		close(open)
	})
}

// An order that goes ends what is fetched for it.
func TestAnOrderThatGoes(t *testing.T) {
	s := newStage(t)
	o := s.order()
	commit, key := s.put("team", map[string]string{"x": noise(2, 1<<20)})
	begun, broken, let := s.held("team")
	defer let()
	order := v1alpha1.DataOrder{Namespace: "team", Commit: commit, Key: key}
	o.give(order)
	<-begun
	o.give()
	s.eventually("it goes on", func() bool { return broken.Load() > 0 })
	let()
	if s.has("team", key) {
		t.Error("it was fetched all the same")
	}
	o.give(order)
	s.eventually("it is not gone on with", func() bool { return s.has("team", key) })
}

// What a pod waits for goes before what nobody waits for yet, also of the same part.
func TestPodsGoFirst(t *testing.T) {
	for _, same := range []bool{true, false} {
		t.Run(fmt.Sprint("same part ", same), func(t *testing.T) {
			s := newStage(t)
			o := s.order()
			ahead, aheadKey := s.put("team", map[string]string{"x": noise(3, 1<<20)})
			begun, broken, let := s.held("team")
			defer let()
			o.give(v1alpha1.DataOrder{Namespace: "team", Commit: ahead, Key: aheadKey})
			<-begun
			namespace, commit := "team", ahead
			if !same {
				namespace = "other"
				commit, _ = s.put("other", map[string]string{"x": "of another"})
			}
			asked := s.later(t.Context(), s.request("a0", namespace, commit))
			s.eventually("it does not make way", func() bool { return broken.Load() > 0 })
			if !same {
				must(t, <-asked) // while the other's store does not answer
				let()
			} else {
				let()
				must(t, <-asked)
			}
			s.eventually("it is not gone on with", func() bool { return s.has("team", aheadKey) })
			s.unpublish("a0")
		})
	}
}

// What is fetched ahead takes nobody's room, and one that cannot be does not keep
// another from it.
func TestAheadTakesFreeRoomAlone(t *testing.T) {
	s := newStage(t)
	s.limit = 3 << 20
	o := s.order()
	used, usedKey := s.put("team", map[string]string{"x": noise(4, 2<<20)})
	large, largeKey := s.put("team", map[string]string{"x": noise(5, 2<<20)})
	small, smallKey := s.put("team", map[string]string{"x": noise(6, 1<<19)})
	s.publish(s.request("a0", "team", used, attributeKey, usedKey))
	s.unpublish("a0") // nobody uses it, and it stays
	o.give(v1alpha1.DataOrder{Namespace: "team", Commit: large, Key: largeKey}, v1alpha1.DataOrder{Namespace: "team", Commit: small, Key: smallKey})
	s.eventually("what fits is not fetched", func() bool { return s.has("team", smallKey) })
	if !s.has("team", usedKey) || s.has("team", largeKey) {
		t.Error("it pushed out what was there")
	}
	// A pod may take that room, also of what was fetched ahead.
	s.publish(s.request("b0", "team", large, attributeKey, largeKey))
	if !s.has("team", largeKey) || s.has("team", usedKey) {
		t.Error("a pod finds no room")
	}
	s.unpublish("b0")
}

// Orders are obeyed for a while where nobody answers, and no longer.
func TestNobodyGivesOrders(t *testing.T) {
	now := atomic.Pointer[time.Time]{}
	at := time.Unix(1_700_000_000, 0)
	now.Store(&at)
	s := newStage(t)
	s.now = func() time.Time { return *now.Load() }
	o := s.order()
	commit, key := s.put("team", map[string]string{"x": noise(7, 1<<20)})
	begun, broken, let := s.held("team")
	defer let()
	o.give(v1alpha1.DataOrder{Namespace: "team", Commit: commit, Key: key})
	<-begun
	o.mu.Lock()
	o.away = errors.New("nobody answers")
	close(o.news)
	o.news = make(chan struct{})
	o.mu.Unlock()
	later := at.Add(2 * obeyedFor)
	now.Store(&later)
	s.eventually("it is obeyed for ever", func() bool { return broken.Load() > 0 })
}
