package foreman

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// recordAll records what is computed: at once where nothing more is under way,
// else together with what comes within a second.
func (w *Work) recordAll(ctx context.Context) {
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		}
		for w.due() {
			w.gather(ctx, last)
			last = time.Now()
			err := w.record(ctx)
			if ctx.Err() != nil {
				return
			}
			if err != nil && !pause(ctx, recordEvery) {
				return
			}
		}
	}
}

// due says whether there is anything to record.
func (w *Work) due() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.ledger.pending) > 0
}

// gather waits until a second has passed since the last time, or until nothing
// more is to come.
func (w *Work) gather(ctx context.Context, last time.Time) {
	timer := time.NewTimer(time.Until(last.Add(recordEvery)))
	defer timer.Stop()
	for {
		w.mu.Lock()
		l := w.ledger
		all := l.stopped || l.counts.Computed+l.counts.Failed+len(l.pending) == l.counts.Total || len(l.pending) >= recordAtOnce
		news := w.news
		w.mu.Unlock()
		if all {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-news:
		}
	}
}

// pause waits; it says whether to go on.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// SpoiledError reports that the output of a datum cannot be recorded, and that another try
// fails, too: a program that was left behind changed the output once the datum was done, or
// put something there that is no file.
type SpoiledError struct {
	// ID is the datum's; Why is the reason.
	ID  string
	Why error
}

// Error implements error.
func (e *SpoiledError) Error() string {
	return fmt.Sprintf("its output cannot be kept: %v", e.Why)
}

// Unwrap returns the reason.
func (e *SpoiledError) Unwrap() error { return e.Why }

// record records what is pending, and clears its files away.
func (w *Work) record(ctx context.Context) error {
	w.mu.Lock()
	which := w.ledger.drain()
	results := make([]Result, len(which))
	alone := make([]bool, len(which))
	for n, i := range which {
		e := &w.ledger.entries[i]
		results[n] = Result{Datum: e.Datum, Outcome: e.outcome, Tries: e.tries, Folder: w.datumFolder(e.ID)}
		// Who tried it before may still be at it.
		alone[n] = e.fresh && e.outcome.Alone
	}
	w.mu.Unlock()
	err := w.spec.Record(ctx, results)
	w.mu.Lock()
	if err != nil {
		w.ledger.pending = append(which, w.ledger.pending...)
		if spoiled, ok := errors.AsType[*SpoiledError](err); ok && w.ledger.spoil(spoiled) {
			w.mu.Unlock()
			return nil // the results are due again
		}
		w.problem = err.Error()
		w.mu.Unlock()
		if ctx.Err() == nil {
			w.foreman.o.Log.Warn("results cannot be recorded; trying again", "work", w.spec.Name, "error", err)
			w.tell(true)
		}
		return err
	}
	w.problem = ""
	w.ledger.keep(which)
	for n := range results {
		if results[n].Failed() && w.first == nil {
			w.first = &results[n]
		}
	}
	over := w.ledger.over()
	w.changed()
	w.mu.Unlock()
	w.tell(over)
	for n := range results {
		// What stays behind goes with the work.
		_ = w.clearAway(results[n].Folder, alone[n])
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, i := range which {
		w.ledger.entries[i].brought.free()
		w.ledger.entries[i].brought = nil
	}
	return nil
}

// clearAway removes the folder of a datum, or keeps it for another; alone says that
// nothing is left that was shown it.
func (w *Work) clearAway(folder string, alone bool) error {
	if w.spec.Lent {
		return os.RemoveAll(folder) // others may be shown it as it is
	}
	return w.shelf.give(folder, alone)
}
