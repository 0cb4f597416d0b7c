package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/dataset"
	"github.com/muster-dev/muster/internal/foreman"
	"github.com/muster-dev/muster/internal/pipeline"
)

// step is one look at one stage of a run.
type step struct {
	run    *v1alpha1.PipelineRun
	active *active
	graph  *pipeline.Graph
	stage  *pipeline.Stage
	all    *v1alpha1.PipelineRunStatus
	status *v1alpha1.StageStatus
	now    metav1.Time
}

func (s *step) end(phase v1alpha1.RunPhase, format string, args ...any) {
	s.status.Phase, s.status.Message, s.status.FinishTime = phase, fmt.Sprintf(format, args...), &s.now
}

// work is a stage that was planned.
type work struct {
	machine   *Machine
	server    client.Client
	store     *data.Store
	namespace string
	run       *v1alpha1.PipelineRun
	stage     *pipeline.Stage
	resolved  *resolved
	plan      *pipeline.Plan
	previous  *pipeline.State
	books     pipeline.Books
	views     []*data.View
	inputs    []commit.Commit
	// tasks are what is to be computed, by the names that the foreman knows; same
	// are those of the same files.
	tasks map[string]pipeline.Task
	same  map[string][]string
	share share
	// before is what the run had come to when the stage was planned.
	before recalled
	spec   foreman.Spec
	where  string
	now    func() time.Time

	mu     sync.Mutex
	failed map[string]bool
	// outdated says that what variables come from is not what it was.
	outdated bool
}

// step takes a stage as far as it goes, and says when to look again.
func (c *Runs) step(ctx context.Context, s *step) (time.Duration, error) {
	if Ended(s.status.Phase) {
		return 0, nil
	}
	for _, name := range s.stage.After {
		switch before := stageStatus(s.all, name); before.Phase {
		case v1alpha1.RunSucceeded:
		case v1alpha1.RunFailed, v1alpha1.RunCancelled:
			s.end(v1alpha1.RunCancelled, "not run, since stage %s did not succeed", name)
			return 0, nil
		default:
			s.status.Phase, s.status.Message = v1alpha1.RunWaiting, "waits for stage "+name
			return 0, nil
		}
	}
	if s.status.StartTime == nil {
		s.status.StartTime = &s.now
	}
	w, err := c.planned(ctx, s)
	if message, again, ok := soon(err); ok {
		s.status.Phase, s.status.Message = v1alpha1.RunPlanning, message
		return again, nil
	}
	if err != nil {
		return 0, s.fail(err)
	}
	if first := w.before.first; first != nil && s.stage.Spec.OnFailure == v1alpha1.FailRun {
		s.status.Datums = w.counts(foreman.Counts{})
		return 0, c.giveUp(ctx, s, first)
	}
	if len(w.tasks) == 0 {
		if err := c.settleUp(ctx, s, w); err != nil {
			return 0, err
		}
		err := c.finish(ctx, s, w)
		if gone(err) {
			return c.again(ctx, s)
		}
		return 0, err
	}
	wait, err := c.compute(ctx, s, w)
	if Ended(s.status.Phase) {
		c.desk.leave(workName(s.run, s.stage.Name))
	}
	return wait, err
}

// settleUp ends what a manager that was killed has left of a stage that has nothing more to
// compute: its job, whose members would ask for work, and its files.
func (c *Runs) settleUp(ctx context.Context, s *step, w *work) error {
	if w.before.computed == 0 && len(w.before.failed) == 0 {
		return nil
	}
	if err := c.dismiss(ctx, s); err != nil {
		return err
	}
	return c.deps.Machine.Foreman.Close(workName(s.run, s.stage.Name))
}

// fail ends a stage because of what nothing but a change can help; it returns any
// other error.
func (s *step) fail(err error) error {
	var clash *pipeline.ConflictError
	var wrong *unfit
	if errors.As(err, &clash) || errors.As(err, &wrong) {
		s.end(v1alpha1.RunFailed, "%s", err)
		return nil
	}
	return err
}

// planned is the stage's plan, which is made once in a process.
func (c *Runs) planned(ctx context.Context, s *step) (*work, error) {
	if w := s.active.works[s.stage.Name]; w != nil {
		return w, nil
	}
	s.status.Phase = v1alpha1.RunPlanning
	means, err := c.resolve(ctx, s.run, s.stage)
	if err != nil {
		return nil, err
	}
	if err := c.dismissFormer(ctx, s, means); err != nil {
		return nil, err
	}
	s.status.Recipe = means.recipe.ID.String()
	w := &work{machine: c.deps.Machine, now: c.deps.Now, server: c.live, namespace: s.run.Namespace, run: s.run.DeepCopy(), stage: s.stage, resolved: means, tasks: map[string]pipeline.Task{}, same: map[string][]string{}, failed: map[string]bool{}}
	if w.where, err = os.Hostname(); err != nil {
		w.where = ""
	}
	planning := c.planningOf(s.run.Namespace)
	planning.RLock()
	defer planning.RUnlock()
	if err := c.plan(ctx, s, w); err != nil {
		return nil, err
	}
	if len(w.tasks) > 0 {
		if s.status.Why, err = w.why(ctx); err != nil {
			return nil, err
		}
		if err := c.pin(ctx, s.run, s.active); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	s.active.works[s.stage.Name] = w
	c.mu.Unlock()
	return w, nil
}

// plan finds out what is to be computed.
func (c *Runs) plan(ctx context.Context, s *step, w *work) error {
	m := c.deps.Machine
	for _, name := range []string{s.stage.Dataset, pipeline.StatesDataset(s.graph.Name), ResultsDataset} {
		if err := dataset.Ensure(ctx, c.client, s.run.Namespace, s.graph.Name, name); err != nil {
			return err
		}
	}
	var err error
	if w.books, err = m.books(ctx, c.live, w.namespace, s.stage.Dataset, s.graph.Name); err != nil {
		return err
	}
	if w.store, err = m.Store(ctx, w.namespace); err != nil {
		return fmt.Errorf("opening the store of data: %w", err)
	}
	request := pipeline.Request{Pipeline: s.graph.Name, Stage: s.stage, Recipe: w.resolved.recipe, Trees: w.store.Trees(), Run: s.run.Spec.Identity, Recompute: slices.Contains(s.run.Spec.Recompute, s.stage.Name)}
	if request.Inputs, err = c.inputs(ctx, s, w); err != nil {
		return err
	}
	w.inputs = request.Inputs
	if w.previous, err = pipeline.Previous(ctx, w.books.Output, s.stage.Branch, w.books.States); err != nil {
		return fmt.Errorf("reading what the last run was made of: %w", err)
	}
	c.mu.Lock()
	if !s.active.whole[s.stage.Name] {
		request.Previous = w.previous
	}
	c.mu.Unlock()
	results, err := w.books.Results.Resolve(ctx, resultsBranch)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the results: %w", err)
	}
	request.Results, w.share.results = results.Tree, results.ID
	if w.plan, err = pipeline.Make(ctx, request); err != nil {
		return err
	}
	if err := w.recall(ctx, results.Tree); err != nil {
		return fmt.Errorf("reading what the run has come to: %w", err)
	}
	for _, t := range w.plan.Work {
		if w.before.failed[t.Key] {
			w.failed[t.Name] = true
			continue
		}
		id := t.Key.String()
		if _, known := w.tasks[id]; !known {
			w.tasks[id] = t
			w.share.open = append(w.share.open, t.Key)
		}
		w.same[id] = append(w.same[id], t.Name)
	}
	return nil
}

func size(t *pipeline.Task) (n int64) {
	for i := range t.Given {
		n += t.Given[i].Bytes
	}
	return n
}

// inputs are the commits of the stage's sources.
func (c *Runs) inputs(ctx context.Context, s *step, w *work) ([]commit.Commit, error) {
	inputs := make([]commit.Commit, len(s.stage.Sources))
	w.views = make([]*data.View, len(s.stage.Sources))
	for i, source := range s.stage.Sources {
		h := head{source.Dataset, source.Branch}
		var at string
		if source.Stage != "" {
			if out := stageStatus(s.all, source.Stage).Output; out != nil {
				at = out.Commit
			}
		} else {
			h = sourceHead(s.graph, s.stage, source)
			for _, in := range s.run.Spec.Inputs {
				if in.Dataset == h.dataset && string(in.Branch) == h.branch {
					at = in.Commit
				}
			}
		}
		if at == "" {
			continue
		}
		d, err := c.deps.Machine.dataset(ctx, c.live, w.namespace, h.dataset)
		if err != nil {
			return nil, err
		}
		view, err := d.At(ctx, at)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, &unfit{fmt.Sprintf("commit %.8s of %s, which it reads, is not there any more", at, h)}
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", h, err)
		}
		inputs[i], w.views[i] = view.Commit(), view
	}
	return inputs, nil
}

// finish commits the output of a stage whose datums all have results.
func (c *Runs) finish(ctx context.Context, s *step, w *work) error {
	s.status.Datums = w.counts(foreman.Counts{Total: len(w.tasks)})
	var made commit.Commit
	if w.plan.Nothing() && w.previous != nil && !w.previous.Output.ID.IsZero() {
		made = w.previous.Output
	} else {
		w.mu.Lock()
		failed := w.failed
		w.mu.Unlock()
		w.books.At, w.books.Noted = c.deps.Now(), true
		var err error
		made, err = w.plan.Finish(ctx, s.graph.Name, w.books, failed, data.CommitOptions{
			Author:  "muster",
			Message: fmt.Sprintf("%s of pipeline %s, run %s\n\n%s%s", s.stage.Name, s.graph.Name, s.run.Name, identityLine, s.run.Spec.Identity),
		})
		if err != nil {
			return s.fail(err)
		}
	}
	s.status.Output = &v1alpha1.RunInput{Dataset: s.stage.Dataset, Branch: v1alpha1.DatasetRef(s.stage.Branch), Commit: made.ID.String()}
	s.end(v1alpha1.RunSucceeded, "%s", w.says(s.status))
	return nil
}

// says is what a stage that succeeded came to.
func (w *work) says(status *v1alpha1.StageStatus) string {
	d := status.Datums
	switch {
	case d.Total == 0:
		return "no file matches its inputs: nothing was made"
	case d.Computed+d.Failed == 0:
		return fmt.Sprintf("nothing to compute: %s as before", datums(d.Total))
	case d.Failed > 0:
		return fmt.Sprintf("%s computed, %d from before, %d failed and left out", datums(d.Computed), d.Reused, d.Failed)
	}
	return fmt.Sprintf("%s computed, %d from before", datums(d.Computed), d.Reused)
}

// counts are the stage's datums by what became of them.
func (w *work) counts(n foreman.Counts) v1alpha1.DatumCounts {
	failed := int64(len(w.before.failed))
	d := v1alpha1.DatumCounts{Total: w.plan.Total, Computed: w.before.computed + int64(n.Computed), Failed: failed + int64(n.Failed)}
	d.Reused = max(0, d.Total-w.before.computed-failed-int64(len(w.tasks)-w.share.taken))
	d.Waiting = int64(len(w.tasks) - w.share.taken - n.Computed - n.Failed)
	return d
}

// compute has the foreman give out what is to be computed, and a job compute it.
func (c *Runs) compute(ctx context.Context, s *step, w *work) (time.Duration, error) {
	if w.isOutdated() {
		return c.renew(ctx, s)
	}
	name := workName(s.run, s.stage.Name)
	given, err := c.handOver(ctx, s, w, name)
	if err != nil {
		return 0, err
	}
	if given == nil && len(w.share.open) > 0 {
		s.status.Phase, s.status.Datums = v1alpha1.RunRunning, w.counts(foreman.Counts{})
		return w.bide(s), nil
	}
	if given == nil { // all of it came from elsewhere
		return c.complete(ctx, s, w, foreman.Counts{})
	}
	stands := given.Status()
	s.status.Phase = v1alpha1.RunRunning
	s.status.Datums = w.counts(stands.Counts)
	if !s.stage.Whole() {
		s.noteGPUs(&stands)
	}
	if stands.Over && s.stage.Whole() {
		if err := c.dismiss(ctx, s); err != nil {
			return 0, err
		}
	}
	switch {
	case stands.Over && stands.Failed > 0 && s.stage.Spec.OnFailure == v1alpha1.FailRun:
		return 0, c.giveUp(ctx, s, &pipeline.Record{Datum: stands.First.Name, Tries: stands.First.Tries, Error: stands.First.Error})
	case stands.Over && len(w.share.open) > 0:
		return w.bide(s), nil
	case stands.Over:
		return c.complete(ctx, s, w, stands.Counts)
	}
	s.status.Message = fmt.Sprintf("%d of %s to compute are done", stands.Computed+stands.Failed, datums(int64(len(w.tasks))))
	if stands.Problem != "" {
		s.status.Message += "; " + stands.Problem
	}
	if !stands.Local {
		s.status.Message += "; the files of the first are being fetched"
		return 0, nil
	}
	return c.employ(ctx, s, w, given)
}

// giveUp ends a stage, and with it the run, because of a datum that failed.
func (c *Runs) giveUp(ctx context.Context, s *step, first *pipeline.Record) error {
	// Its job first: of a stage that has ended nothing is tried again.
	if err := c.stop(ctx, s); err != nil {
		return err
	}
	if s.stage.Whole() {
		s.end(v1alpha1.RunFailed, "%s; its log: muster pipeline logs %s %s", first.Error, s.run.Name, s.stage.Name)
		return nil
	}
	s.end(v1alpha1.RunFailed, "datum %s failed after %s: %s; its log: muster pipeline logs %s %s --datum '%s'",
		first.Datum, tries(first.Tries), first.Error, s.run.Name, s.stage.Name, first.Datum)
	return nil
}

// complete commits the stage's output, once every datum has a result or has failed.
func (c *Runs) complete(ctx context.Context, s *step, w *work, counts foreman.Counts) (time.Duration, error) {
	err := c.finish(ctx, s, w)
	if gone(err) {
		return c.again(ctx, s)
	}
	if err != nil || !Ended(s.status.Phase) {
		return 0, err
	}
	s.status.Datums = w.counts(counts)
	if s.status.Phase == v1alpha1.RunSucceeded {
		s.status.Message = w.says(s.status)
	}
	return 0, c.deps.Machine.Foreman.Close(workName(s.run, s.stage.Name))
}

// note records results, and keeps in mind which datums failed.
func (w *work) note(ctx context.Context, results []foreman.Result) error {
	if err := w.record(ctx, results); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range results {
		if !results[i].Failed() {
			continue
		}
		for _, name := range w.same[results[i].Datum.ID] {
			w.failed[name] = true
		}
	}
	return nil
}
