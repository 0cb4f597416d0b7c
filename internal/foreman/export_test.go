package foreman

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

// Expire looks for workers that were not heard of.
func (w *Work) Expire() { w.expire() }
