package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/tree"
)

// Request is what a plan is made of.
type Request struct {
	// Pipeline is the name of the stage's, for explanations: by it is found which
	// results were brought for it from another Muster.
	Pipeline string
	Stage    *Stage
	Recipe   *Recipe
	// Trees reads all trees.
	Trees *tree.Tree
	// Inputs are the commits of the stage's sources, by index; a zero one has
	// nothing.
	Inputs []commit.Commit
	// Previous is the state of the last successful run; nil: there was none.
	Previous *State
	// Results is the tree of the dataset of results.
	Results tree.Root
	// Run is the run's identity. It has to be given where results are not taken
	// again.
	Run string
	// Recompute computes every datum again, as the run asks.
	Recompute bool
}

// Task is a datum with the key under which its result is, or is to be recorded.
type Task struct {
	Datum
	Key digest.ID
}

// Lost is a datum of before, with the key of the result that was taken for it.
type Lost struct {
	Name string
	Key  digest.ID
	// Failed says that it had failed.
	Failed bool
}

// Plan is what a run of a stage has to do.
type Plan struct {
	// Total is how many datums there are now.
	Total int64
	// Work are the datums that have no result, Reused those that are new or
	// different and have one; both in the order of their names. All others are as
	// they were.
	Work, Reused []Task
	// Gone are datums of before that are not there any more, or have another result
	// now, in the order of their names.
	Gone []Lost
	// Whole says that everything was looked at, and Why says in words why.
	Whole bool
	Why   string

	request *Request
	base    *State // what changes are relative to; nil: nothing
}

// Nothing says that the stage's output stays as it is.
func (p *Plan) Nothing() bool {
	return !p.Whole && len(p.Work)+len(p.Reused)+len(p.Gone) == 0
}

// Make plans a run of a stage. It costs what differs from the previous run; all of
// it, where that cannot be told.
func Make(ctx context.Context, r Request) (*Plan, error) {
	if len(r.Inputs) != len(r.Stage.Sources) {
		return nil, fmt.Errorf("planning stage %s: it has %d sources, and %d commits are given", r.Stage.Name, len(r.Stage.Sources), len(r.Inputs))
	}
	if r.anew() && r.Run == "" {
		return nil, fmt.Errorf("planning stage %s: its results are not taken again, so the run's identity has to be given", r.Stage.Name)
	}
	p := &Plan{request: &r, Why: r.wholly()}
	var datums []Datum
	var gone []string
	var err error
	if p.Why == "" {
		p.base = r.Previous
		datums, gone, err = r.changed(ctx)
		if err != nil && ctx.Err() == nil {
			p.Why = fmt.Sprintf("what the last run was made of cannot be read: %v", err)
		}
	}
	if p.Why != "" {
		p.Whole = true
		datums, err = r.all(ctx)
	}
	if err == nil {
		err = p.compare(ctx, datums, gone)
	}
	if err != nil {
		return nil, fmt.Errorf("planning stage %s: %w", r.Stage.Name, err)
	}
	return p, nil
}

// anew says that no result of another run is taken.
func (r *Request) anew() bool { return r.Recompute || r.Stage.Spec.Impure }

// wholly says why everything has to be looked at, if it has to.
func (r *Request) wholly() string {
	prev := r.Previous
	// What this run has made itself, and could not say so, it does not make again.
	own := prev != nil && prev.Run == r.Run && prev.Impure == r.Stage.Spec.Impure
	switch {
	case prev == nil:
		return "the stage has not run before"
	case r.Stage.Spec.Impure && !own:
		return "the stage is impure: every run computes every datum"
	case r.Recompute && !own:
		return "the run was asked to compute it again"
	case prev.Impure && !own:
		return "the stage was impure before"
	case prev.Shape != r.Stage.Shape():
		return "the stage's input or acceptKeys were written differently before"
	case prev.Recipe != r.Recipe.ID:
		return "code, arguments, variables or environment differ"
	case len(prev.Inputs) != len(r.Inputs):
		return "the stage had other inputs before"
	}
	return ""
}

// all are all datums, in the order of their names.
func (r *Request) all(ctx context.Context) ([]Datum, error) {
	now := &reader{trees: r.Trees, roots: roots(r.Inputs)}
	elements, err := now.elements(ctx, r.Stage.input, false)
	if err != nil {
		return nil, err
	}
	datums := make([]Datum, len(elements))
	for i := range elements {
		datums[i] = elements[i].datum()
	}
	slices.SortFunc(datums, byName)
	return datums, nil
}

// changed are the datums that are new or different, and the names of those that
// are gone.
func (r *Request) changed(ctx context.Context) (datums []Datum, gone []string, err error) {
	c := &comparison{
		old: &reader{trees: r.Trees, roots: roots(r.Previous.Inputs)},
		now: &reader{trees: r.Trees, roots: roots(r.Inputs)},
	}
	d, err := c.delta(ctx, r.Stage.input, false)
	if err != nil {
		return nil, nil, err
	}
	for i := range d.is {
		datums = append(datums, d.is[i].datum())
	}
	for _, name := range d.gone {
		gone = append(gone, fit(name))
	}
	failed, err := r.failedBefore(ctx)
	if err != nil {
		return nil, nil, err
	}
	for i := range datums {
		delete(failed, datums[i].Name)
	}
	for _, name := range gone {
		delete(failed, name)
	}
	if len(failed) > 0 {
		again, err := r.named(ctx, failed)
		if err != nil {
			return nil, nil, err
		}
		datums = append(datums, again...)
	}
	slices.SortFunc(datums, byName)
	slices.Sort(gone)
	return datums, gone, nil
}

// failedBefore are the names of the datums that failed in the previous run, and
// are tried again in this one.
func (r *Request) failedBefore(ctx context.Context) (map[string]bool, error) {
	names := map[string]bool{}
	for e, err := range r.Trees.From(ctx, r.Previous.Datums, failedFolder) {
		if err != nil {
			return nil, err
		}
		name, ok := strings.CutPrefix(e.Path, failedFolder)
		if !ok {
			break
		}
		names[name] = true
	}
	return names, nil
}

// named are the datums of some names: of one source, at the cost of these.
func (r *Request) named(ctx context.Context, names map[string]bool) ([]Datum, error) {
	datums := make([]Datum, 0, len(names))
	now := &reader{trees: r.Trees, roots: roots(r.Inputs)}
	for name := range names {
		path, ok := r.Stage.input.leafPath(name)
		if !ok {
			all, err := r.all(ctx)
			return slices.DeleteFunc(all, func(d Datum) bool { return !names[d.Name] }), err
		}
		f, err := now.at(ctx, r.Stage.input.source, path)
		if err != nil {
			return nil, err
		}
		if f != nil {
			datums = append(datums, (&element{name: name, given: []Given{f.Given}}).datum())
		}
	}
	return datums, nil
}

// compare tells work from what has a result, and what is gone from before.
func (p *Plan) compare(ctx context.Context, datums []Datum, gone []string) error {
	before := map[string]Lost{}
	if p.request.Previous != nil {
		var err error
		if before, err = p.before(ctx, datums, gone); err != nil && p.Whole && ctx.Err() == nil {
			before, err = nil, nil // nothing of before can be told
			p.request.Previous = nil
		}
		if err != nil {
			return err
		}
	}
	if p.Whole {
		p.Total = int64(len(datums))
	} else {
		known, _, err := p.request.Trees.Sum(ctx, p.base.Datums, allFolder, after(allFolder))
		if err != nil {
			return err
		}
		p.Total = known - int64(len(gone))
		for i := range datums {
			if _, ok := before[datums[i].Name]; !ok {
				p.Total++
			}
		}
	}
	return p.lookUp(ctx, datums, before)
}

// after is what comes behind everything in a folder.
func after(folder string) string { return folder[:len(folder)-1] + "0" }

// before is what the state has of datums, by name: of those given, or of all.
func (p *Plan) before(ctx context.Context, datums []Datum, gone []string) (map[string]Lost, error) {
	r := p.request
	before := map[string]Lost{}
	add := func(name string, e *tree.Entry, failed bool) error {
		was, err := parsePast(e)
		if err == nil {
			before[name] = Lost{Name: name, Key: was.of(r.Previous.Recipe), Failed: failed}
		}
		return err
	}
	if p.Whole {
		for _, folder := range []string{allFolder, failedFolder} {
			for e, err := range r.Trees.From(ctx, r.Previous.Datums, folder) {
				if err != nil {
					return nil, err
				}
				name, ok := strings.CutPrefix(e.Path, folder)
				if !ok {
					break
				}
				if err := add(name, e, folder == failedFolder); err != nil {
					return nil, err
				}
			}
		}
		return before, nil
	}
	names := slices.Clone(gone)
	for i := range datums {
		names = append(names, datums[i].Name)
	}
	slices.Sort(names)
	for _, folder := range []string{allFolder, failedFolder} {
		for _, name := range names {
			e, err := r.Trees.Get(ctx, r.Previous.Datums, folder+name)
			if err == nil {
				err = add(name, &e, folder == failedFolder)
			}
			if ignoreMissing(err) != nil {
				return nil, err
			}
		}
	}
	return before, nil
}
