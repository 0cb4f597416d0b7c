package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/dataset"
	"github.com/muster-dev/muster/internal/pipeline"
)

const (
	// sweepDelay is how long after a start results are swept first: what waits to be
	// run comes before.
	sweepDelay = time.Minute
	// sweepEvery is the time from one sweep to the next.
	sweepEvery = 24 * time.Hour
)

// statesPrefix begins the names of datasets of states.
const statesPrefix = pipeline.StatesPrefix

// SweepOptions say which results are to go.
type SweepOptions struct {
	// Client reads from the API server itself.
	Client client.Client
	// Store is the store of data of a namespace.
	Store func(ctx context.Context, namespace string) (*data.Store, error)
	// Keep is how long after its last use a result stays that no output has.
	Keep time.Duration
	// At is the time.
	At time.Time
	// Hold keeps a namespace's runs from taking results until it is let go of, and
	// says what they have taken. Default: namespaces with a run on its way are left
	// alone.
	Hold func(namespace string) (needed map[digest.ID]bool, letGo func())
	// DryRun only says what would go.
	DryRun bool
}

// SweepReport is what went, or would go.
type SweepReport struct {
	pipeline.Swept
	// Busy are the namespaces that were left alone, since a run was on its way.
	Busy []string
}

// Sweep removes results that nobody has and nobody used for long, in every
// namespace. An error in one of them does not spare the others.
func Sweep(ctx context.Context, o SweepOptions) (SweepReport, error) {
	var report SweepReport
	datasets := &v1alpha1.DatasetList{}
	if err := o.Client.List(ctx, datasets); err != nil {
		return report, fmt.Errorf("listing datasets: %w", err)
	}
	var errs []error
	for i := range datasets.Items {
		if datasets.Items[i].Name != ResultsDataset {
			continue
		}
		namespace := datasets.Items[i].Namespace
		swept, busy, err := o.namespace(ctx, namespace)
		if err != nil {
			errs = append(errs, fmt.Errorf("results in namespace %s: %w", namespace, err))
		}
		if busy {
			report.Busy = append(report.Busy, namespace)
		}
		report.Results += swept.Results
		report.Failed += swept.Failed
		report.Datums += swept.Datums
	}
	return report, errors.Join(errs...)
}

// namespace sweeps one.
func (o *SweepOptions) namespace(ctx context.Context, namespace string) (swept pipeline.Swept, busy bool, err error) {
	var needed map[digest.ID]bool
	if o.Hold != nil {
		var letGo func()
		needed, letGo = o.Hold(namespace)
		defer letGo()
	}
	store, err := o.Store(ctx, namespace)
	if err != nil {
		return swept, false, fmt.Errorf("opening the store of data: %w", err)
	}
	s := pipeline.Sweeping{
		Trees: store.Trees(), Results: o.dataset(store, namespace, ResultsDataset), Branch: resultsBranch,
		At: o.At, Keep: o.Keep, DryRun: o.DryRun,
	}
	s.Hold = func(ctx context.Context) (pipeline.Holding, error) {
		holding, running, err := o.holding(ctx, store, namespace)
		holding.Needed = needed
		if err == nil && running && o.Hold == nil {
			busy, err = true, errBusy
		}
		return holding, err
	}
	swept, err = pipeline.Sweep(ctx, s)
	if errors.Is(err, errBusy) {
		err = nil
	}
	return swept, busy, err
}

// errBusy is why a namespace is left alone.
var errBusy = errors.New("a run is on its way")

func (o *SweepOptions) dataset(store *data.Store, namespace, name string) *data.Dataset {
	return store.Dataset(&dataset.Heads{Client: o.Client, Namespace: namespace, Name: name})
}

// holding is what keeps results of a namespace: where the states of its stages are,
// and which runs there are. A pipeline or a stage that is gone keeps its results for
// as long as any that nobody uses, so that who makes it again finds them.
func (o *SweepOptions) holding(ctx context.Context, store *data.Store, namespace string) (h pipeline.Holding, running bool, err error) {
	runs, pipelines, datasets := &v1alpha1.PipelineRunList{}, &v1alpha1.PipelineList{}, &v1alpha1.DatasetList{}
	for _, list := range []client.ObjectList{runs, pipelines, datasets} {
		if err := o.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return h, false, fmt.Errorf("listing runs, pipelines and datasets: %w", err)
		}
	}
	named := map[string]bool{}
	for i := range runs.Items {
		named[runs.Items[i].Name] = true
		running = running || !Ended(runs.Items[i].Status.Phase) && !runs.Items[i].Spec.DryRun
	}
	h.Run = func(name string) bool { return named[name] }
	stages := map[string]bool{}
	for i := range pipelines.Items {
		p := &pipelines.Items[i]
		for k := range p.Spec.Stages {
			stages[pipeline.StateBranch(p.Name, p.Spec.Stages[k].Name)] = true
		}
	}
	there := func(c *commit.Commit, says *pipeline.Provenance) bool {
		return stages[pipeline.StateBranch(says.Pipeline, says.Stage)] || c.Time.After(o.At.Add(-o.Keep))
	}
	for i := range datasets.Items {
		name := datasets.Items[i].Name
		if !strings.HasPrefix(name, statesPrefix) {
			continue
		}
		states, err := pipeline.LastStates(ctx, o.dataset(store, namespace, name), there)
		if err != nil {
			return h, running, fmt.Errorf("reading dataset %s: %w", name, err)
		}
		h.States = append(h.States, states...)
	}
	return h, running, nil
}

// planningOf is held for reading while a stage of a namespace takes results.
func (c *Runs) planningOf(namespace string) *sync.RWMutex {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.planning == nil {
		c.planning = map[string]*sync.RWMutex{}
	}
	if c.planning[namespace] == nil {
		c.planning[namespace] = &sync.RWMutex{}
	}
	return c.planning[namespace]
}

// hold keeps runs from being planned until it is let go of, and says which results
// those of a namespace have taken, or are to record.
func (c *Runs) hold(namespace string) (needed map[digest.ID]bool, letGo func()) {
	planning := c.planningOf(namespace)
	planning.Lock()
	needed = map[digest.ID]bool{}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.active {
		if a.key.Namespace != namespace {
			continue
		}
		for _, w := range a.works {
			w.needs(needed)
		}
	}
	return needed, planning.Unlock
}

// needs adds the results that the work has taken, and those that it is to record.
func (w *work) needs(to map[digest.ID]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, tasks := range [][]pipeline.Task{w.plan.Work, w.plan.Reused} {
		for i := range tasks {
			to[tasks[i].Key] = true
		}
	}
	for _, was := range w.plan.Gone {
		to[was.Key] = true // the output is made from what it is told to lose
	}
}

// upkeep sweeps results soon after the start and once a day from then on, until ctx
// ends. A sweep that comes to nothing is logged, and the next one tries again.
func (c *Runs) upkeep(ctx context.Context) {
	m := c.deps.Machine
	if m.KeepResults <= 0 {
		return
	}
	for wait := sweepDelay; ; wait = sweepEvery {
		select {
		case <-ctx.Done():
			return
		case <-c.deps.After(wait):
		}
		report, err := Sweep(ctx, SweepOptions{Client: c.live, Store: m.Store, Keep: m.KeepResults, At: c.deps.Now(), Hold: c.hold})
		if err != nil && ctx.Err() == nil {
			ctrl.LoggerFrom(ctx).Error(err, "removing results that nobody used for long")
		}
		if report.Any() && m.Swept != nil {
			m.Swept(report)
		}
	}
}

// gone says that a result was removed that a plan has taken.
func gone(err error) bool {
	_, missing := errors.AsType[*pipeline.MissingResultError](err)
	return missing
}

// again forgets the plan of a stage, so that it is made anew, and not as what differs
// from an output whose results are not all there.
func (c *Runs) again(ctx context.Context, s *step) (time.Duration, error) {
	c.mu.Lock()
	delete(s.active.works, s.stage.Name)
	if s.active.whole == nil {
		s.active.whole = map[string]bool{}
	}
	s.active.whole[s.stage.Name] = true
	c.mu.Unlock()
	s.status.Phase, s.status.Message = v1alpha1.RunPlanning, "a result that it had taken was removed meanwhile: it is planned again"
	return preparing, c.stop(ctx, s)
}
