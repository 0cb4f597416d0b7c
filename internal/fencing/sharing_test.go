package fencing

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// gate is a reader of the fence whose reads are answered one by one: each is
// announced, and answered with the epoch that is then sent.
type gate struct {
	client.Reader
	began  chan struct{}
	answer chan int32
	reads  atomic.Int32
}

func (g *gate) Get(ctx context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	g.reads.Add(1)
	g.began <- struct{}{}
	select {
	case epoch := <-g.answer:
		o.(*coordinationv1.Lease).Spec.LeaseTransitions = &epoch
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ask asks in a goroutine and returns once it has joined a read.
func ask(ctx context.Context, s *Sharing, got func(State, error)) func() {
	var wg sync.WaitGroup
	wg.Go(func() { got(s.Read(ctx)) })
	return wg.Wait
}

// Who asks while a read is under way is served by the next one, together with
// all who ask until that begins.
func TestSharedReadsBeginAfterTheyWereAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{began: make(chan struct{}), answer: make(chan int32)}
		s := NewSharing(g, "")
		want := func(epoch int64) func(State, error) {
			return func(got State, err error) {
				if err != nil || got.Epoch != epoch {
					t.Errorf("read epoch %d, %v; want %d", got.Epoch, err, epoch)
				}
			}
		}
		first := ask(t.Context(), s, want(1))
		<-g.began
		var others []func()
		for range 20 {
			others = append(others, ask(t.Context(), s, want(2)))
		}
		synctest.Wait() // all have joined the next read
		g.answer <- 1
		first()
		<-g.began
		g.answer <- 2
		for _, wait := range others {
			wait()
		}
		if n := g.reads.Load(); n != 2 {
			t.Errorf("%d reads for 21 who asked, 20 of them while the first was under way; want 2", n)
		}
	})
}

// joined waits until somebody waits for the next read.
func joined(t *testing.T, s *Sharing) {
	t.Helper()
	for t.Context().Err() == nil {
		s.mu.Lock()
		waits := s.next != nil
		s.mu.Unlock()
		if waits {
			return
		}
	}
}

// Who was to read for others and goes away leaves the read to one of them.
func TestSharedReadOutlivesWhoGoes(t *testing.T) {
	g := &gate{began: make(chan struct{}), answer: make(chan int32)}
	s := NewSharing(g, "")
	ctx, cancel := context.WithCancel(t.Context())
	goes := ask(ctx, s, func(_ State, err error) {
		if err == nil {
			t.Error("who was cancelled got an answer")
		}
	})
	<-g.began
	stays := ask(t.Context(), s, func(got State, err error) {
		if err != nil || got.Epoch != 7 {
			t.Errorf("read epoch %d, %v; want 7", got.Epoch, err)
		}
	})
	joined(t, s)
	cancel()
	goes()
	<-g.began
	g.answer <- 7
	stays()
	if s.underWay || s.next != nil {
		t.Error("the turn was not given back")
	}
}
