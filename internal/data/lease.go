package data

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/blobindex"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/holder"
	"github.com/muster-dev/muster/internal/data/ref"
)

// leasePrefix is what the keys of all leases begin with.
const leasePrefix = "leases/"

// ErrLeaseLost is wrapped by errors of sessions whose lease was not renewed in time,
// such as on a laptop that slept: a collection may have removed the data that they
// stored. A new put of the same files succeeds.
var ErrLeaseLost = errors.New("the lease was not renewed in time")

// note is what is written of a lease.
type note struct {
	// Started is when it began, by the backend's clock; the first note does not
	// know it yet, and counts from when it was stored.
	Started time.Time `json:"started,omitzero"`
	// TTL is how long after it was stored the lease stands.
	TTL time.Duration `json:"ttl"`
	// Commits are pinned, with everything behind them.
	Commits []digest.ID `json:"commits,omitempty"`
	// Holder is the process. Leases of earlier versions have none.
	Holder holder.Holder `json:"holder,omitzero"`

	// until is when the lease ends unless it is renewed, by the backend's clock.
	until time.Time
}

// Lease keeps collections away from commits, and from what is stored while it
// lives. It is renewed until it is released.
type Lease struct {
	store *Store
	key   string
	stop  context.CancelFunc
	done  chan struct{}

	// stored is what packs have, for the sessions that share the lease.
	stored *blobindex.Indices

	mu   sync.Mutex
	note note
	// renewed is when the lease was stored last, by the backend's clock.
	renewed time.Time
	// lost is set for good once a collection may have taken the holder for dead.
	lost atomic.Bool
}

// Pin takes a lease on commits: they and all that they hold stay until it is
// released, or until the process is dead for [Options.LeaseTTL].
func (s *Store) Pin(ctx context.Context, commits ...digest.ID) (*Lease, error) {
	l := &Lease{store: s, key: leasePrefix + rand.Text(), done: make(chan struct{}), stored: blobindex.New(s.backend, &s.indices), note: note{TTL: s.ttl, Commits: commits, Holder: s.holder}}
	if err := l.renew(ctx); err != nil {
		// It may be stored all the same. One that stays counts for LeaseTTL.
		_ = s.dropLease(context.WithoutCancel(ctx), l.key)
		return nil, fmt.Errorf("taking a lease: %w", err)
	}
	ctx, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	go l.keep(ctx)
	return l, nil
}

// keep renews the lease until it is stopped. What fails is tried again at the next
// turn; a move of a head renews the lease once more.
func (l *Lease) keep(ctx context.Context) {
	defer close(l.done)
	turn := time.NewTicker(l.store.ttl / 5)
	defer turn.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-turn.C:
			_ = l.renew(ctx)
		}
	}
}

// renew writes the note as it is now, and reads back when the backend stored it. Its
// clock decides whether the lease stood all the time, as it does for collections: the
// clocks of this machine stand still while it sleeps, or are set. A lease that was lost
// is written all the same, since the commits that it pins may still exist.
func (l *Lease) renew(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	text, err := json.Marshal(l.note)
	if err != nil {
		return err
	}
	if err := l.store.putLease(ctx, l.key, text); err != nil {
		return err
	}
	info, err := l.store.backend.Stat(ctx, l.key)
	switch {
	case errors.Is(err, fs.ErrNotExist): // a collection took the holder for dead
		l.lost.Store(true)
	case err != nil:
		return err
	case !l.renewed.IsZero() && info.Stored.Sub(l.renewed) > l.store.ttl:
		l.lost.Store(true)
	}
	if l.note.Started.IsZero() {
		l.note.Started = info.Stored
	}
	l.renewed = info.Stored
	return l.standing()
}

// standing returns an error once the lease is lost.
func (l *Lease) standing() error {
	if l.Lost() {
		return fmt.Errorf("%w: a collection may have removed the stored data: put it again", ErrLeaseLost)
	}
	return nil
}

// Lost reports whether the lease did not stand all the time: sessions of it fail.
func (l *Lease) Lost() bool { return l.lost.Load() }

// swap moves heads while leases of a store stand: they are renewed and read back just
// before, and the move ends before the first of them can.
func swap(ctx context.Context, leases []*Lease, heads ref.Heads, moves ...ref.Move) error {
	ctx, cancel := context.WithTimeout(ctx, leases[0].store.ttl*2/3)
	defer cancel()
	for _, l := range leases {
		if err := l.renew(ctx); err != nil {
			return fmt.Errorf("renewing a lease: %w", err)
		}
	}
	return heads.Swap(ctx, moves...)
}

// putLease stores a lease. It need not outlive the power of the machine, since who
// holds it does not.
func (s *Store) putLease(ctx context.Context, key string, text []byte) error {
	if fast, ok := s.backend.(backend.Fleeting); ok {
		return fast.PutFleeting(ctx, key, text)
	}
	return s.backend.Put(ctx, key, text)
}

func (s *Store) dropLease(ctx context.Context, key string) error {
	if fast, ok := s.backend.(backend.Fleeting); ok {
		return fast.DeleteFleeting(ctx, key)
	}
	return s.backend.Delete(ctx, key)
}

// add pins more commits.
func (l *Lease) add(ctx context.Context, commits ...digest.ID) error {
	l.mu.Lock()
	l.note.Commits = append(l.note.Commits, commits...)
	l.mu.Unlock()
	if err := l.renew(ctx); err != nil {
		return fmt.Errorf("extending a lease: %w", err)
	}
	return nil
}

// Release gives the lease back.
func (l *Lease) Release(ctx context.Context) error {
	l.stop()
	<-l.done
	if err := l.store.dropLease(ctx, l.key); err != nil {
		return fmt.Errorf("releasing a lease: %w", err)
	}
	return nil
}

// leases returns the notes of live leases. It removes leases that have run out, and those
// whose holder has ended, unless keepEnded.
func (s *Store) leases(ctx context.Context, now time.Time, keepEnded bool) ([]note, error) {
	var live []note
	var dead []string
	err := s.backend.List(ctx, leasePrefix, func(i backend.Info) error {
		n, err := s.readNote(ctx, i.Key)
		switch {
		case errors.Is(err, fs.ErrNotExist): // released meanwhile
			return nil
		case errors.Is(err, errTorn):
			// The machine lost its power while it was written, and its holder with that.
			n = note{TTL: s.ttl}
		case err != nil:
			return err
		}
		if n.until = i.Stored.Add(n.TTL + s.slack); n.until.Before(now) || !keepEnded && n.Holder.Ended() {
			dead = append(dead, i.Key)
			return nil
		}
		if n.Started.IsZero() {
			n.Started = i.Stored
		}
		live = append(live, n)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing leases: %w", err)
	}
	for _, key := range dead {
		if err := s.backend.Delete(ctx, key); err != nil {
			return nil, fmt.Errorf("removing a lease of somebody dead: %w", err)
		}
	}
	return live, nil
}

// errTorn is wrapped by the errors of leases of which nothing can be read.
var errTorn = errors.New("it is not what anybody has written")

// readNote reads what is written of a lease, again where it was renewed between
// asking for its length and for its bytes.
func (s *Store) readNote(ctx context.Context, key string) (n note, err error) {
	for range 5 {
		var text []byte
		if text, err = backend.Read(ctx, s.backend, key); err == nil {
			if bad := json.Unmarshal(text, &n); bad != nil {
				err = fmt.Errorf("%w: %w", errTorn, bad)
			}
		}
		if err == nil || errors.Is(err, fs.ErrNotExist) || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return note{}, fmt.Errorf("reading lease %s: %w", key, err)
	}
	return n, nil
}
