package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/tree"
	"github.com/muster-dev/muster/internal/pipeline"
)

// dryRunTTL is how long a dry run that has ended can be read.
const dryRunTTL = 10 * time.Minute

// foresight is a dry run: what each stage would compute.
type foresight struct {
	runs    *Runs
	run     *v1alpha1.PipelineRun
	graph   *pipeline.Graph
	status  *v1alpha1.PipelineRunStatus
	store   *data.Store
	session *data.Session // in which outputs are made that nobody sees; nil: none can be
	stages  map[string]*foreseen
}

// foreseen is what a dry run knows of a stage.
type foreseen struct {
	// output is what the stage would make; nil where it has to compute something.
	output *commit.Commit
	// growth is how many datums it would have for each that it had; 0: not known.
	growth float64
}

// foresee finds out what every stage of a dry run would compute, as far as that can
// be known before it is done.
func (c *Runs) foresee(ctx context.Context, run *v1alpha1.PipelineRun, graph *pipeline.Graph, status *v1alpha1.PipelineRunStatus) (again time.Duration, err error) {
	now := metav1.NewTime(c.deps.Now())
	status.Stages = nil
	f := &foresight{runs: c, run: run, graph: graph, status: status, stages: map[string]*foreseen{}}
	if f.store, err = c.deps.Machine.Store(ctx, run.Namespace); err != nil {
		return 0, fmt.Errorf("opening the store of data: %w", err)
	}
	results, err := c.deps.Machine.dataset(ctx, c.live, run.Namespace, ResultsDataset)
	if err != nil {
		return 0, err
	}
	f.session, err = results.Begin(ctx, resultsBranch, data.SessionOptions{})
	if err != nil && !absent(err) {
		return 0, fmt.Errorf("reading the results: %w", err)
	}
	if f.session != nil {
		defer func() { err = errors.Join(err, f.session.Close(context.WithoutCancel(ctx))) }()
	}
	for _, stage := range graph.Stages {
		err := f.stage(ctx, stage)
		if lacks, ok := errors.AsType[*notYet](err); ok && lacks.again > 0 {
			err = &unfit{lacks.message} // whoever asks is to hear it, and would wait for ever
		}
		if message, again, ok := soon(err); ok {
			status.Phase, status.Message = v1alpha1.RunPlanning, fmt.Sprintf("stage %s: %s", stage.Name, message)
			return again, nil
		}
		if wrong, ok := errors.AsType[*unfit](err); ok {
			status.Phase, status.Message, status.FinishTime = v1alpha1.RunFailed, fmt.Sprintf("stage %s: %s", stage.Name, wrong.message), &now
			return 0, nil
		}
		if err != nil {
			return 0, fmt.Errorf("stage %s: %w", stage.Name, err)
		}
	}
	status.Phase, status.Message, status.FinishTime = v1alpha1.RunSucceeded, f.says(), &now
	status.Done = done(graph, status)
	return 0, nil
}

// stage finds out what one would compute.
func (f *foresight) stage(ctx context.Context, stage *pipeline.Stage) error {
	c := f.runs
	means, err := c.resolve(ctx, f.run, stage)
	if err != nil {
		return err
	}
	m := c.deps.Machine
	w := &work{machine: m, store: f.store, server: c.live, namespace: f.run.Namespace, run: f.run, stage: stage, resolved: means}
	if w.books, err = m.books(ctx, c.live, w.namespace, stage.Dataset, f.graph.Name); err != nil {
		return err
	}
	request := pipeline.Request{Pipeline: f.graph.Name, Stage: stage, Recipe: means.recipe, Trees: f.trees(), Run: f.run.Spec.Identity, Recompute: slices.Contains(f.run.Spec.Recompute, stage.Name)}
	inputs, after, growth, err := f.inputs(ctx, stage)
	if err != nil {
		return err
	}
	request.Inputs = inputs
	if w.previous, err = pipeline.Previous(ctx, w.books.Output, stage.Branch, w.books.States); err != nil && !absent(err) {
		return fmt.Errorf("reading what the last run was made of: %w", err)
	}
	request.Previous = w.previous
	view, err := w.results(ctx)
	if err != nil {
		return err
	}
	if view != nil {
		request.Results = view.Commit().Tree
	}
	if w.plan, err = pipeline.Make(ctx, request); err != nil {
		return err
	}
	e, err := w.plan.Explain(ctx, view)
	if err != nil {
		return err
	}
	cost, err := w.plan.Cost(ctx, view)
	if err != nil {
		return err
	}
	estimate := bound(w, after, growth)
	f.note(stage, means, e, estimate, cost, after)
	return f.foreseen(ctx, w, view, estimate)
}

// trees reads the trees of commits, and of outputs that only this dry run knows.
func (f *foresight) trees() *tree.Tree {
	if f.session != nil {
		return f.session.Trees()
	}
	return f.store.Trees()
}

// inputs are the commits of a stage's sources, the stages before it of which it is
// not known what they make, and how many datums there would be for each of now at
// most; 0: not known.
func (f *foresight) inputs(ctx context.Context, stage *pipeline.Stage) (inputs []commit.Commit, after []string, growth float64, err error) {
	inputs, growth = make([]commit.Commit, len(stage.Sources)), 1
	for i, source := range stage.Sources {
		h := head{source.Dataset, source.Branch}
		at := h.branch
		if source.Stage == "" {
			h = sourceHead(f.graph, stage, source)
			at = h.branch
			for _, in := range f.run.Spec.Inputs {
				if in.Dataset == h.dataset && string(in.Branch) == h.branch && in.Commit != "" {
					at = in.Commit
				}
			}
		} else if before := f.stages[source.Stage]; before.output != nil {
			inputs[i] = *before.output
			continue
		} else {
			after = append(after, source.Stage)
			if !source.Everything() {
				growth *= before.growth
			}
		}
		d, err := f.runs.deps.Machine.dataset(ctx, f.runs.live, f.run.Namespace, h.dataset)
		if err != nil {
			return nil, nil, 0, err
		}
		found, err := d.Resolve(ctx, at)
		if err != nil && !absent(err) {
			return nil, nil, 0, fmt.Errorf("reading %s: %w", h, err)
		}
		if err != nil && at != h.branch {
			return nil, nil, 0, &unfit{fmt.Sprintf("commit %.8s of %s, which it is to read, is not there", at, h)}
		}
		if err == nil {
			inputs[i] = found
		}
	}
	slices.Sort(after)
	return inputs, slices.Compact(after), growth, nil
}

// bound is how much a stage would compute: exactly, or at most where stages before
// it make what is not known yet.
func bound(w *work, after []string, growth float64) *v1alpha1.StageEstimate {
	e := &v1alpha1.StageEstimate{Compute: int64(len(w.plan.Work))}
	if len(after) == 0 {
		return e
	}
	e.AtMost = true
	switch {
	case w.stage.Single():
		e.Compute = 1
	case w.plan.Total == 0 || growth == 0:
		e.AtMost, e.Unknown, e.Compute = false, true, 0
	default:
		e.Compute = int64(math.Ceil(float64(w.plan.Total) * max(1, growth)))
	}
	return e
}

// note puts what is known of a stage into the status.
func (f *foresight) note(stage *pipeline.Stage, means *resolved, e *pipeline.Explanation, estimate *v1alpha1.StageEstimate, cost pipeline.Cost, after []string) {
	s := stageStatus(f.status, stage.Name)
	s.Phase, s.Recipe, s.Estimate = v1alpha1.RunSucceeded, means.recipe.ID.String(), estimate
	if cost.Samples > 0 && estimate.Compute > 0 {
		estimate.Samples = int32(cost.Samples)
		estimate.Seconds, estimate.GPUSeconds = seconds(cost.Seconds*float64(estimate.Compute)), seconds(cost.GPUSeconds*float64(estimate.Compute))
	}
	words := different(e)
	if len(after) > 0 {
		for _, name := range after {
			words = append(words, fmt.Sprintf("what it is given of stage %s is known once that has run", name))
		}
		s.Why = sentence(words)
		s.Message = "computes " + compute(estimate)
		return
	}
	s.Datums = v1alpha1.DatumCounts{Total: e.Total, Waiting: e.Work, Reused: e.Total - e.Work}
	if len(words) == 0 && e.Why != "" && e.Work > 0 {
		words = append(words, e.Why)
	}
	if e.Work+e.Reused+e.Gone > 0 && len(words) == 0 {
		words = append(words, changed(e))
	}
	s.Why = sentence(words)
	s.Message = fmt.Sprintf("computes %s of %d, takes %d that have results, %d as they were", compute(estimate), e.Total, e.Reused, e.Same)
}

// changed says in words which datums differ.
func changed(e *pipeline.Explanation) string {
	text := ""
	if n := e.Work + e.Reused; n > 0 {
		text = datums(n) + " new or different"
	}
	if e.Gone > 0 && text != "" {
		text += ", "
	}
	if e.Gone > 0 {
		text += datums(e.Gone) + " gone"
	}
	return text
}

// compute says how many datums a stage computes.
func compute(e *v1alpha1.StageEstimate) string {
	switch {
	case e.Unknown:
		return "nobody knows yet how many datums"
	case e.AtMost:
		return "at most " + datums(e.Compute)
	}
	return datums(e.Compute)
}

// foreseen keeps in mind what the stages after this one would be given.
func (f *foresight) foreseen(ctx context.Context, w *work, view *data.View, estimate *v1alpha1.StageEstimate) error {
	is := &foreseen{}
	f.stages[w.stage.Name] = is
	had := int64(0)
	if w.previous != nil {
		if says := pipeline.ProvenanceOf(&w.previous.Output); says != nil {
			had = says.Datums
		}
	}
	exact := !estimate.AtMost && !estimate.Unknown
	if total := w.plan.Total; had > 0 && !estimate.Unknown {
		if !exact {
			total = max(total, estimate.Compute)
		}
		is.growth = max(1, float64(total)/float64(had))
	}
	switch {
	case !exact || estimate.Compute > 0:
		return nil
	case w.plan.Nothing() && w.previous != nil && !w.previous.Output.ID.IsZero():
		is.output = &w.previous.Output
		return nil
	case view == nil || f.session == nil:
		is.output = &commit.Commit{} // there is no datum, and so no file
		return nil
	}
	a, err := w.plan.Assemble(ctx, pipeline.Results{Trees: f.trees(), Root: view.Commit().Tree}, nil)
	if err != nil {
		return err
	}
	root, err := f.session.Build(ctx, a.OutputBase, a.Output)
	if err != nil {
		return err
	}
	is.output = &commit.Commit{Tree: root}
	return nil
}

// says is what the run would come to.
func (f *foresight) says() string {
	var sum v1alpha1.StageEstimate
	var time, gpus float64
	for i := range f.status.Stages {
		e := f.status.Stages[i].Estimate
		sum.Compute += e.Compute
		sum.AtMost = sum.AtMost || e.AtMost || e.Unknown
		sum.Unknown = sum.Unknown || e.Unknown
		if e.Seconds != nil {
			time += e.Seconds.AsApproximateFloat64()
		}
		if e.GPUSeconds != nil {
			gpus += e.GPUSeconds.AsApproximateFloat64()
		}
	}
	if sum.Compute == 0 && !sum.Unknown {
		return "would compute nothing"
	}
	unknown := sum.Unknown
	sum.Unknown = false
	text := "would compute " + compute(&sum)
	if time > 0 {
		text += fmt.Sprintf(", about %.0f s of work for one worker", time)
	}
	if gpus > 0 {
		text += fmt.Sprintf(", %.0f GPU-seconds of it", gpus)
	}
	if unknown {
		text += ", and what cannot be known before stages that never ran have made it"
	}
	return text
}

// forget removes a dry run that could be read for long enough.
func (c *Runs) forget(ctx context.Context, run *v1alpha1.PipelineRun) (ctrl.Result, error) {
	if wait := dryRunTTL - c.deps.Now().Sub(run.Status.FinishTime.Time); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	if err := c.client.Delete(ctx, run, client.Preconditions{UID: &run.UID}); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("removing dry run %s: %w", run.Name, err)
	}
	return ctrl.Result{}, nil
}
