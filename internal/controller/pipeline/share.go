package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/foreman"
	"github.com/muster-dev/muster/internal/pipeline"
)

// share is what of a stage's work is computed elsewhere: by another run, of this
// pipeline or another one, or by another stage, that wants the same result.
type share struct {
	// open are the results of which it is not known yet who computes them, or which
	// another work computes; where says which.
	open  []digest.ID
	where string
	// taken is how many came from elsewhere.
	taken int
	// results are where the results were when it was looked for them last.
	results digest.ID
}

// handOver gives the foreman what of the stage nobody else computes, and returns its
// work: nil as long as there is none.
func (c *Runs) handOver(ctx context.Context, s *step, w *work, name string) (*foreman.Work, error) {
	own, err := c.settle(ctx, w, name)
	if err != nil {
		return nil, err
	}
	f := c.deps.Machine.Foreman
	given := f.Find(name)
	w.spec.Datums = append(w.spec.Datums, own...)
	switch {
	case given != nil:
		given.Add(own)
		return given, nil
	case len(w.spec.Datums) == 0:
		return nil, nil
	}
	w.spec.Name = name
	spec := w.spec
	spec.Owner, spec.Program, spec.Fetch = w.namespace, program(s.stage), w.fetch
	spec.Program.Run = w.run.Spec.Identity
	spec.Program.Carried = (w.resolved.apart || c.deps.Machine.Shared) && !s.stage.Whole()
	spec.Facts = w.facts
	spec.Record = func(ctx context.Context, results []foreman.Result) error {
		err := w.note(ctx, results)
		if err == nil {
			c.desk.done(w.namespace, name, w.keys(results))
		}
		return err
	}
	spec.Tries, spec.FailFast = int(*s.stage.Spec.Tries), s.stage.Spec.OnFailure == v1alpha1.FailRun
	spec.Admit = c.admit(w, name)
	spec.Ended = c.workerEnded(w.namespace, jobName(s.run, s.stage.Name))
	if w.resolved.terms != nil && c.deps.Machine.carries() && !s.stage.Whole() {
		spec.Job = jobTag(w.resolved.terms)
	}
	if s.stage.Whole() {
		spec.Tries, spec.Lent = 1, true // the job has a count of its own, and asks nobody
		if s.stage.Spec.Spark != nil && c.deps.Machine.carries() {
			spec.Leader, spec.Followers = sparkMembers(s.stage.Spec.Spark)
		}
		c.keeping(w, name, &spec)
	}
	return f.Open(ctx, spec)
}

// keys are those of results.
func (w *work) keys(results []foreman.Result) []digest.ID {
	keys := make([]digest.ID, len(results))
	for i := range results {
		task := w.tasks[results[i].Datum.ID]
		keys[i] = task.Key
	}
	return keys
}

// settle finds out which of the results that are wanted this work is to compute. What
// another one has recorded meanwhile is taken; what it gave up is computed here.
func (c *Runs) settle(ctx context.Context, w *work, name string) ([]foreman.Datum, error) {
	if len(w.share.open) == 0 {
		return nil, nil
	}
	mine, others, where := c.desk.take(w.namespace, name, fmt.Sprintf("stage %s of run %s", w.stage.Name, w.run.Name), w.share.open)
	// Whoever had it has recorded it before it let go of it: looking comes after.
	found, err := w.recorded(ctx, mine, len(others))
	if err != nil {
		return nil, err
	}
	var own []foreman.Datum
	var there []digest.ID
	for i, key := range mine {
		task := w.tasks[key.String()]
		if found != nil && !found[i].IsZero() {
			w.take(key, found[i])
			there = append(there, key)
			continue
		}
		own = append(own, foreman.Datum{ID: key.String(), Name: task.Name, Bytes: size(&task)})
	}
	if len(there) > 0 {
		c.desk.done(w.namespace, name, there)
	}
	w.share.open, w.share.where = others, where
	return own, nil
}

// recorded looks for results, where there are others than when it was looked last;
// others is how many are not looked for, since other works have them.
func (w *work) recorded(ctx context.Context, keys []digest.ID, others int) ([]digest.ID, error) {
	now, err := w.books.Results.Resolve(ctx, resultsBranch)
	if errors.Is(err, fs.ErrNotExist) || err == nil && now.ID == w.share.results || len(keys) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the results: %w", err)
	}
	if w.share.results = now.ID; others > 0 {
		w.share.results = digest.ID{} // theirs were not looked for: once they are ours they are
	}
	return pipeline.Results{Trees: w.store.Trees(), Root: now.Tree}.Find(ctx, keys)
}

// take takes a result that another work has recorded, by the key by which it is
// found.
func (w *work) take(key, found digest.ID) {
	w.share.taken++
	if key == found {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.plan.Work {
		if w.plan.Work[i].Key == key {
			w.plan.Work[i].Key = found
		}
	}
}

// bide says for what the stage waits that is computed elsewhere.
func (w *work) bide(s *step) time.Duration {
	s.status.Message = fmt.Sprintf("%s the same as what %s computes: waits for it", isAre(len(w.share.open)), w.share.where)
	return leaving
}

func isAre(n int) string {
	if n == 1 {
		return "1 datum is"
	}
	return fmt.Sprintf("%d datums are", n)
}
