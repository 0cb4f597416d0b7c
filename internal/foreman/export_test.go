package foreman

import "context"

// Waits says whether something was given out by a foreman before, and nobody has
// said yet who has it.
func (w *Work) Waits() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.ledger.hands[former]
	return h != nil && len(h.has) > 0
}

// Stop ends a work as a foreman does that ends.
func (w *Work) Stop() {
	w.stop()
	w.group.Wait()
}

// Ripe says whether a pod of a member is to bring its part.
func (w *Work) Ripe(ctx context.Context, member, job string, attempt int64) error {
	_, err := w.ripe(ctx, &person{Member: member, Pod: "pod of " + member, Job: job, Attempt: attempt})
	return err
}

// ErrTorn is what a leader is told of whose followers one is lost.
var ErrTorn = errTorn

// ErrFormer is what pods of another job than the one that computes are told.
var ErrFormer = errFormer

// Expire looks for workers that were not heard of.
func (w *Work) Expire() { w.expire(context.Background()) }
