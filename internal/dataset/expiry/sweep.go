package expiry

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/dataset"
	"github.com/muster-dev/muster/internal/pipeline"
)

// Options select the results to remove.
type Options struct {
	// Client reads from the API server itself.
	Client client.Client
	// Store is the store of data of a namespace.
	Store func(ctx context.Context, namespace string) (*data.Store, error)
	// Keep is how long after its last use a result stays that no output has.
	Keep time.Duration
	// At is the time.
	At time.Time
	// Hold keeps a namespace's runs from taking results until it is released, and returns the results
	// that they have taken. Default: namespaces with a run on its way are left alone.
	Hold func(namespace string) (needed map[digest.ID]bool, letGo func())
	// DryRun only reports the data that would be removed.
	DryRun bool
}

// Report counts the data that was removed, or would be.
type Report struct {
	pipeline.Swept
	// States is the number of datasets of states that were removed.
	States int
	// Busy are the namespaces that were left alone, since a run was on its way.
	Busy []string
}

// Any reports whether anything was removed.
func (r Report) Any() bool { return r.Swept.Any() || r.States > 0 }

// Sweep removes, in every namespace, results without references that were not used for long, and
// datasets of states that were abandoned long ago. An error in one namespace does not spare the
// others.
func Sweep(ctx context.Context, o Options) (Report, error) {
	var report Report
	datasets := &v1alpha1.DatasetList{}
	if err := o.Client.List(ctx, datasets); err != nil {
		return report, fmt.Errorf("listing datasets: %w", err)
	}
	results, namespaces := map[string]bool{}, map[string]bool{}
	for i := range datasets.Items {
		name, namespace := datasets.Items[i].Name, datasets.Items[i].Namespace
		results[namespace] = results[namespace] || name == pipeline.ResultsDataset
		if results[namespace] || strings.HasPrefix(name, pipeline.StatesPrefix) {
			namespaces[namespace] = true
		}
	}
	var errs []error
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		s := &sweep{Options: o, namespace: namespace}
		if err := s.run(ctx, results[namespace]); err != nil {
			errs = append(errs, fmt.Errorf("results in namespace %s: %w", namespace, err))
		}
		if s.busy {
			report.Busy = append(report.Busy, namespace)
		}
		report.Results += s.swept.Results
		report.Failed += s.swept.Failed
		report.Datums += s.swept.Datums
		report.States += s.states
	}
	return report, errors.Join(errs...)
}

// sweep is that of one namespace.
type sweep struct {
	Options
	namespace string
	store     *data.Store

	swept  pipeline.Swept
	states int
	// busy reports that the sweep did nothing because of an unfinished run.
	busy bool
}

// errBusy is the error of a namespace that the sweep skips.
var errBusy = errors.New("a run is on its way")

// run sweeps. After a kill between any two steps the next sweep goes on.
func (s *sweep) run(ctx context.Context, results bool) (err error) {
	var needed map[digest.ID]bool
	if s.Hold != nil {
		var letGo func()
		needed, letGo = s.Hold(s.namespace)
		defer letGo()
	}
	if s.store, err = s.Store(ctx, s.namespace); err != nil {
		return fmt.Errorf("opening the store of data: %w", err)
	}
	// 1. Annotate datasets of states that are abandoned, and remove the annotation of the others.
	if err := s.mark(ctx); err != nil {
		return err
	}
	// 2. Remove results.
	if results {
		s.swept, err = pipeline.Sweep(ctx, pipeline.Sweeping{
			Trees: s.store.Trees(), Results: s.dataset(pipeline.ResultsDataset), Branch: pipeline.ResultsBranch,
			At: s.At, Keep: s.Keep, DryRun: s.DryRun,
			Hold: func(ctx context.Context) (pipeline.Holding, error) { return s.holding(ctx, needed) },
		})
	}
	if errors.Is(err, errBusy) {
		s.busy = true
		return nil
	}
	if err != nil {
		return err
	}
	// 3. Remove the datasets of states that kept results until now.
	return s.remove(ctx)
}

func (s *sweep) dataset(name string) *data.Dataset {
	return s.store.Dataset(&dataset.Heads{Client: s.Client, Namespace: s.namespace, Name: name})
}

// holding returns the objects that keep results of the namespace: the states of its stages, and its
// runs. A removed stage keeps its results for the retention time, so that a new stage of that name
// finds them. For a removed pipeline that time begins when a sweep notices the removal.
func (s *sweep) holding(ctx context.Context, needed map[digest.ID]bool) (h pipeline.Holding, err error) {
	h.Needed = needed
	w, err := s.look(ctx)
	if err != nil {
		return h, err
	}
	if w.running && s.Hold == nil {
		return h, errBusy
	}
	h.Run = func(name string) bool { return w.runs[name] }
	for i := range w.datasets {
		d := &w.datasets[i]
		since, abandoned := s.since(w, d)
		there := func(c *commit.Commit, says *pipeline.Provenance) bool {
			if abandoned {
				return !s.over(since)
			}
			return w.stages[pipeline.StateBranch(says.Pipeline, says.Stage)] || !s.over(c.Time)
		}
		states, err := pipeline.LastStates(ctx, s.dataset(d.Name), there)
		if err != nil {
			return h, fmt.Errorf("reading dataset %s: %w", d.Name, err)
		}
		h.States = append(h.States, states...)
	}
	return h, nil
}

// over reports whether the retention time since a time is over.
func (s *sweep) over(since time.Time) bool { return !since.After(s.At.Add(-s.Keep)) }
