package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/tree"
	"github.com/muster-dev/muster/internal/pipeline"
)

// recalled is what a run had come to in a stage when that was planned, maybe by a manager
// that is gone since: as the links of its datums say, which are recorded with the results
// that they lead to.
type recalled struct {
	// computed is how many results it had made.
	computed int64
	// failed are the datums that had failed for good, by their keys. Nothing of what can
	// change their results has changed since, or their keys had: they are not tried again.
	failed map[digest.ID]bool
	// first is the first of them, in the order of the plan; nil: none.
	first *pipeline.Record
}

// recall finds out what the run had come to. It costs what that computed.
func (w *work) recall(ctx context.Context, results tree.Root) error {
	if results.ID.IsZero() {
		return nil
	}
	made, failed := map[string]bool{}, map[string]string{}
	folder := pipeline.DatumsPath(w.run.Name, w.stage.Name) + "/"
	for e, err := range w.store.Trees().From(ctx, results, folder) {
		if err != nil {
			return err
		}
		name, below := strings.CutPrefix(e.Path, folder)
		if !below {
			break
		}
		if name = strings.TrimSuffix(name, "~"); pipeline.LeadsToFailed(e.Target) {
			failed[name] = e.Target
		} else {
			made[name] = true
		}
	}
	for i := range w.plan.Work {
		if len(made)+len(failed) == 0 {
			break
		}
		t := &w.plan.Work[i]
		delete(made, t.Name) // it is computed again, and has another result then
		if target := failed[t.Name]; target != "" && strings.HasSuffix(target, "/"+pipeline.FailedPath(t.Key)) {
			if err := w.fell(ctx, results, t); err != nil {
				return fmt.Errorf("datum %s: %w", t.Name, err)
			}
		}
	}
	w.before.computed = int64(len(made))
	return nil
}

// fell notes that a datum has failed, as long as there is a record of it: that may have been
// let go of for its age, and the datum is tried again.
func (w *work) fell(ctx context.Context, results tree.Root, t *pipeline.Task) error {
	_, err := w.store.Trees().Get(ctx, results, pipeline.FailedPath(t.Key)+"/"+pipeline.RecordFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if w.before.failed == nil {
		w.before.failed = map[digest.ID]bool{}
	}
	w.before.failed[t.Key] = true
	if w.before.first != nil {
		return nil
	}
	view, err := w.books.Results.At(ctx, w.share.results.String())
	if err != nil {
		return err
	}
	if w.before.first, err = pipeline.ReadFailed(ctx, view, t.Key); err != nil {
		return err
	}
	w.before.first.Datum = t.Name // other works that failed by the same files may name it otherwise
	return nil
}
