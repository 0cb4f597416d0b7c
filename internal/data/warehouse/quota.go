package warehouse

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/pack"
)

// ErrQuota is wrapped by errors of those who would keep more than they may.
var ErrQuota = errors.New("the namespace's quota of data is used up")

// Uploads begins the keys of what comes in parts, until it is complete: it lies beside
// the store of its namespace, belongs to none, and counts.
const Uploads = "uploads/"

// recount is after which time it is counted anew how much a namespace keeps: others
// store there, too, and collections remove. Where the quota is used up it is counted
// sooner.
const recount, recountWriter, recountFull = 10 * time.Minute, time.Minute, 10 * time.Second

// Reserve reports whether a namespace may keep so many bytes more, and counts them
// from then on.
func (w *Warehouse) Reserve(ctx context.Context, namespace string, more int64) error {
	return w.allow(ctx, namespace, more, true)
}

// fits is Reserve for a writer that says repeatedly how much it has not stored yet: these
// bytes are not counted before they are stored.
func (w *Warehouse) fits(ctx context.Context, namespace string, more int64) error {
	return w.allow(ctx, namespace, more, false)
}

func (w *Warehouse) allow(ctx context.Context, namespace string, more int64, keep bool) error {
	if w.o.Room != nil {
		if err := w.o.Room(more); err != nil {
			return err
		}
	}
	if w.o.Quota <= 0 {
		return nil
	}
	r, err := w.room(namespace)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	within := recount
	if !keep { // what such a writer has stored counts only once it is listed
		within = recountWriter
	}
	if err := w.count(ctx, namespace, r, within); err != nil {
		return err
	}
	if r.used+more > w.o.Quota { // a collection may have made room
		if err := w.count(ctx, namespace, r, recountFull); err != nil {
			return err
		}
	}
	if r.used+more > w.o.Quota {
		return fmt.Errorf("%w: namespace %s keeps %d bytes of %d, and %d more do not fit: delete branches, tags or datasets that nobody needs "+
			"(what only they had goes a day later), or ask an administrator for more", ErrQuota, namespace, r.used, w.o.Quota, more)
	}
	if keep {
		r.used += more
	}
	return nil
}

// count counts what a namespace keeps, unless that was done within a time.
func (w *Warehouse) count(ctx context.Context, namespace string, r *room, within time.Duration) error {
	now := w.o.Now()
	if !r.counted.IsZero() && now.Sub(r.counted) <= within {
		return nil
	}
	var total int64
	for _, prefix := range []string{pack.Prefix, commit.Prefix, Uploads} {
		err := r.objects.List(ctx, prefix, func(i backend.Info) error {
			total += i.Size
			return nil
		})
		if err != nil {
			return fmt.Errorf("counting what namespace %s keeps: %w", namespace, err)
		}
	}
	r.used, r.counted = total, now
	return nil
}
