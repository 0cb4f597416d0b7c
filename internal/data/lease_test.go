package data

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/ref"
)

// elsewhere is a backend on another machine: its clock runs on while this machine sleeps. The
// timers of this process stand still then.
type elsewhere struct {
	backend.Backend

	mu    sync.Mutex
	ahead time.Duration            // of this process's clock
	put   map[string]time.Duration // how far ahead it was when the object was stored
	// before is called before an object is stored.
	before func(key string)
	// drowsy makes the machine sleep after each reading of the condemned packs.
	drowsy bool
}

func (e *elsewhere) sleep(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ahead += d
}

func (e *elsewhere) stamped(i backend.Info) backend.Info {
	e.mu.Lock()
	defer e.mu.Unlock()
	i.Stored = i.Stored.Add(e.put[i.Key])
	return i
}

func (e *elsewhere) Put(ctx context.Context, key string, content []byte) error {
	if e.before != nil {
		e.before(key)
	}
	err := e.Backend.Put(ctx, key, content)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.put[key] = e.ahead
	return err
}

func (e *elsewhere) Stat(ctx context.Context, key string) (backend.Info, error) {
	i, err := e.Backend.Stat(ctx, key)
	return e.stamped(i), err
}

func (e *elsewhere) List(ctx context.Context, prefix string, see func(backend.Info) error) error {
	err := e.Backend.List(ctx, prefix, func(i backend.Info) error { return see(e.stamped(i)) })
	if e.drowsy && prefix == condemnedPrefix {
		e.sleep(time.Hour)
	}
	return err
}

// TestAWriterThatSleeps: a laptop sleeps between its last pack and the move of its head,
// and another machine collects meanwhile. The head moves only if its packs are all there.
func TestAWriterThatSleeps(t *testing.T) {
	for name, c := range map[string]struct {
		sleeps  time.Duration
		renewed bool // by the timer, before the head is to move
		copied  bool // the removed data is another branch's, and a second lease kept it
		lost    bool
	}{
		"a nap":                             {sleeps: 10 * time.Minute},
		"a nap, and the timer was first":    {sleeps: 10 * time.Minute, renewed: true},
		"too long":                          {sleeps: 16 * time.Minute, lost: true},
		"too long, and the timer was first": {sleeps: 16 * time.Minute, renewed: true, lost: true},
		"the night":                         {sleeps: 8 * time.Hour, lost: true},
		"too long for copied data, too":     {sleeps: 16 * time.Minute, copied: true, lost: true},
		"a nap, and copied data is there":   {sleeps: 10 * time.Minute, copied: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			far := &elsewhere{Backend: p.bytes, put: map[string]time.Duration{}}
			p.Dataset = p.open(t, far, p.heads)
			put(t, p.Dataset, "other", Stream("f", strings.NewReader(noise(2, 2<<20))), AddOptions{})
			s, err := p.Begin(t.Context(), "main", SessionOptions{})
			must(t, err)
			must(t, s.Add(t.Context(), Stream("f", strings.NewReader(noise(1, 2<<20))), AddOptions{}))
			leases := []*Lease{s.lease}
			if c.copied {
				from, err := p.At(t.Context(), "other")
				must(t, err)
				must(t, s.Copy(t.Context(), from, "f", "copied"))
				leases = append(leases, s.pins...)
			}
			removed := 0
			far.before = func(key string) {
				if !strings.HasPrefix(key, commit.Prefix) {
					return
				}
				far.before = nil
				must(t, p.Remove(t.Context(), branch("other"))) // another machine removes it
				far.sleep(c.sleeps)
				other := p.open(t, far, p.heads)
				r, err := other.store.Collect(t.Context(), CollectOptions{Heads: []ref.Heads{p.heads}})
				must(t, err)
				removed = r.Packs
				for _, l := range leases {
					if !c.renewed {
						continue
					}
					if err := l.renew(t.Context()); errors.Is(err, ErrLeaseLost) != c.lost {
						t.Errorf("renewing: %v", err)
					}
				}
			}
			_, err = s.Commit(t.Context(), CommitOptions{})
			must(t, s.Close(t.Context()))
			if c.lost {
				if _, gone := p.At(t.Context(), "main"); !errors.Is(err, ErrLeaseLost) || !errors.Is(gone, fs.ErrNotExist) || removed == 0 {
					t.Fatalf("%d packs were removed, the commit is %v, and its branch %v", removed, err, gone)
				}
				put(t, p.Dataset, "main", Stream("f", strings.NewReader(noise(1, 2<<20))), AddOptions{}) // again
			} else if err != nil {
				t.Fatal(err)
			}
			want := map[string]string{"f": noise(1, 2<<20)}
			if c.copied && !c.lost {
				want["copied"] = noise(2, 2<<20)
			}
			same(t, "main", want, held(t, p.Dataset, "main"))
			found, err := p.store.Verify(t.Context(), VerifyOptions{Heads: []ref.Heads{p.heads}, Bytes: true})
			if err != nil || len(found.Problems) > 0 {
				t.Errorf("%+v: %v", found.Problems, err)
			}
		})
	}
}

// TestEachLeaseOfASessionHasToStand: the session lost the lease on copied data, but not its
// own lease.
func TestEachLeaseOfASessionHasToStand(t *testing.T) {
	p := newPlace(t)
	far := &elsewhere{Backend: p.bytes, put: map[string]time.Duration{}}
	p.Dataset = p.open(t, far, p.heads)
	put(t, p.Dataset, "other", Stream("f", strings.NewReader("x")), AddOptions{})
	s, err := p.Begin(t.Context(), "main", SessionOptions{})
	must(t, err)
	from, err := p.At(t.Context(), "other")
	must(t, err)
	must(t, s.Copy(t.Context(), from, "f", "copied"))
	for range 2 {
		far.sleep(8 * time.Minute)
		must(t, s.lease.renew(t.Context()))
	}
	if _, err := s.Commit(t.Context(), CommitOptions{}); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("the commit: %v", err)
	}
	must(t, s.Close(t.Context()))
	if _, err := p.At(t.Context(), "main"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its branch: %v", err)
	}
}

// TestNoHeadMovesUnderALostLease: no operation moves a head under a lost lease, and
// no session begins under such a lease.
func TestNoHeadMovesUnderALostLease(t *testing.T) {
	p := newPlace(t)
	far := &elsewhere{Backend: p.bytes, put: map[string]time.Duration{}}
	p.Dataset = p.open(t, far, p.heads)
	put(t, p.Dataset, "main", Stream("f", strings.NewReader("x")), AddOptions{})
	must(t, p.Create(t.Context(), branch("ahead"), "main"))
	put(t, p.Dataset, "ahead", Stream("g", strings.NewReader("y")), AddOptions{})
	far.drowsy = true // which is after the lease was taken, and before the head moves
	_, merged := p.Merge(t.Context(), MergeOptions{From: "ahead", Into: "main"})
	for what, err := range map[string]error{
		"merging":   merged,
		"creating":  p.Create(t.Context(), branch("new"), "main"),
		"resetting": p.Reset(t.Context(), "ahead", "main"),
	} {
		if !errors.Is(err, ErrLeaseLost) {
			t.Errorf("%s: %v", what, err)
		}
	}
	lease, err := p.store.Pin(t.Context())
	must(t, err)
	far.sleep(time.Hour)
	if err := lease.renew(t.Context()); !errors.Is(err, ErrLeaseLost) || !lease.Lost() {
		t.Errorf("renewing: %v", err)
	}
	if _, err := p.Begin(t.Context(), "main", SessionOptions{Lease: lease}); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("beginning: %v", err)
	}
	must(t, lease.Release(t.Context()))
}

// TestALeaseThatWasRemoved: a collection that took its holder for dead may remove it in
// the moment after it was renewed.
func TestALeaseThatWasRemoved(t *testing.T) {
	p := newPlace(t)
	lost := &losing{Backend: p.bytes}
	d := p.open(t, lost, p.heads)
	lease, err := d.store.Pin(t.Context())
	must(t, err)
	lost.loses = true
	if err := lease.renew(t.Context()); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("renewing: %v", err)
	}
	lost.loses = false
	if err := lease.renew(t.Context()); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("renewing it again: %v", err)
	}
	must(t, lease.Release(t.Context()))
}

// losing removes the stored lease.
type losing struct {
	backend.Backend
	loses bool
}

func (l *losing) Put(ctx context.Context, key string, content []byte) error {
	if l.loses {
		return nil
	}
	return l.Backend.Put(ctx, key, content)
}

func (l *losing) Stat(ctx context.Context, key string) (backend.Info, error) {
	if l.loses {
		return backend.Info{}, fs.ErrNotExist
	}
	return l.Backend.Stat(ctx, key)
}

// TestALeaseStandsUntilItsDeadline: as long as its holder lives it is renewed in time;
// then it stands for its time to live and the slack of clocks, and no longer.
func TestALeaseStandsUntilItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t)
		const slack = 2 * time.Second
		p.store.slack = slack
		id := abandoned(t, p, "x")
		lease, err := p.store.Pin(t.Context(), id)
		must(t, err)
		stands := func(when string, want bool) {
			t.Helper()
			r := collect(t, p, CollectOptions{})
			if gone := r.Commits > 0; gone == want {
				t.Fatalf("%s: %+v", when, r)
			}
		}
		for range 60 {
			time.Sleep(p.store.ttl / 4)
			stands("while its holder lives", true)
		}
		if lease.Lost() {
			t.Error("its holder takes it for lost")
		}
		lease.stop() // the holder dies
		<-lease.done
		must(t, lease.renew(t.Context()))
		time.Sleep(p.store.ttl + slack)
		stands("at the deadline", true)
		time.Sleep(time.Nanosecond)
		stands("after the deadline", false)
	})
}

// TestTheMoveOfAHeadEndsBeforeItsLease: a move that takes too long is cancelled.
func TestTheMoveOfAHeadEndsBeforeItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t)
		d := p.open(t, p.bytes, busyHeads{p.heads})
		begun := time.Now()
		_, err := d.Put(t.Context(), "main", Stream("f", strings.NewReader("x")), PutOptions{})
		if took := time.Since(begun); !errors.Is(err, context.DeadlineExceeded) || took >= d.store.ttl {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

// busyHeads answer only when the context of the move has ended.
type busyHeads struct{ ref.Heads }

func (busyHeads) Swap(ctx context.Context, _ ...ref.Move) error {
	<-ctx.Done()
	return ctx.Err()
}
