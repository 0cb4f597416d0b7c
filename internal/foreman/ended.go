package foreman

import (
	"context"
	"time"

	"github.com/muster-dev/muster/internal/foreman/shift"
)

// workerEnded is the error of a datum whose worker ended for no reason that is known.
const workerEnded = "its worker ended"

const (
	// endedWithin bounds the search for the reason why a worker ended. The worker in its place waits
	// for that.
	endedWithin = 5 * time.Second
	// endedEvery is the interval of that search: the watch may show the pod's end after the next
	// worker has begun.
	endedEvery = 200 * time.Millisecond
)

// replaced returns why the worker that a new one replaces has ended, if it had any datum.
func (w *Work) replaced(ctx context.Context, r *shift.Request) string {
	since, lost := w.former(r)
	if !lost || w.spec.Ended == nil {
		return workerEnded
	}
	ctx, cancel := context.WithTimeout(ctx, endedWithin)
	defer cancel()
	tick := time.NewTicker(endedEvery)
	defer tick.Stop()
	for {
		reason, vain := w.spec.Ended(ctx, r.Member, since)
		switch {
		case reason != "":
			return reason
		case vain:
			return workerEnded
		}
		select {
		case <-ctx.Done():
			return workerEnded
		case <-tick.C:
		}
	}
}

// former returns the start of a worker that has datums and that a new one replaces.
func (w *Work) former(r *shift.Request) (since time.Time, lost bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.Member == "" || w.ledger.hands[r.Worker] != nil {
		return since, false
	}
	for _, h := range w.ledger.hands {
		if h.member == r.Member && !h.gone && len(h.has) > 0 {
			return h.since, true
		}
	}
	return since, false
}

// unheard returns why workers ended that have datums and have not reported since before.
func (w *Work) unheard(ctx context.Context, before time.Time) map[string]string {
	if w.spec.Ended == nil {
		return nil
	}
	type place struct {
		member string
		since  time.Time
	}
	places, reasons := map[string]place{}, map[string]string{}
	w.mu.Lock()
	for name, h := range w.ledger.hands {
		if !h.gone && h.member != "" && len(h.has) > 0 && h.seen.Before(before) {
			places[name] = place{h.member, h.since}
		}
	}
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, endedWithin)
	defer cancel()
	for name, p := range places {
		reasons[name], _ = w.spec.Ended(ctx, p.member, p.since)
	}
	return reasons
}
