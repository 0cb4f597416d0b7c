package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/tree"
)

// Trace is how files of a commit came to be: the datum, its result, and what it
// was given.
type Trace struct {
	Provenance *Provenance
	Datum      string
	Key        digest.ID
	// Given is what it was given; the commit of each is that of its source in
	// Provenance.Inputs.
	Given []Given
	// Paths are the files that it made, with those of the commit's paths.
	Paths []string
}

// Tracer answers where files come from, and what was made of them.
type Tracer struct {
	Trees *tree.Tree
	// States is the dataset of states, Results what the dataset of results has.
	States  *data.Dataset
	Results Results
}

// From is the datum that made a file of a commit, with what it was given: down to
// the files. The error wraps [fs.ErrNotExist] where the commit says nothing of what
// it was made of, or no datum made the file. It costs up to all datums.
func (t *Tracer) From(ctx context.Context, c *commit.Commit, path string) (*Trace, error) {
	var found *Trace
	err := t.each(ctx, c, func(says *Provenance, name string, key digest.ID) error {
		_, err := t.Results.Trees.Get(ctx, t.Results.Root, ResultPath(key)+"/"+OutFolder+"/"+path)
		if err == nil {
			found = &Trace{Provenance: says, Datum: name, Key: key, Paths: []string{path}}
			return data.Stop
		}
		return ignoreMissing(err)
	})
	if err != nil && !errors.Is(err, data.Stop) {
		return nil, err
	}
	if found == nil {
		return nil, fmt.Errorf("no datum that is known made %q in commit %s: %w", path, c.ID.Short(), fs.ErrNotExist)
	}
	datums, err := t.datums(ctx, c, found.Provenance)
	if err != nil {
		return nil, err
	}
	for i := range datums {
		if datums[i].Name == found.Datum {
			found.Given = datums[i].Given
		}
	}
	return found, nil
}

// To shows what a commit has that was made of files of another commit, one of its
// inputs, whose paths are in order: every datum that was given one, with what it made. It
// costs all datums.
func (t *Tracer) To(ctx context.Context, c *commit.Commit, input digest.ID, paths []string, see func(Trace) error) error {
	says := ProvenanceOf(c)
	if says == nil || !slices.ContainsFunc(says.Inputs, func(u Used) bool { return u.Commit == input }) {
		return nil
	}
	datums, err := t.datums(ctx, c, says)
	if err != nil {
		return err
	}
	given := map[string]*Datum{}
	for i := range datums {
		for k := range datums[i].Given {
			g := &datums[i].Given[k]
			if says.Inputs[g.Source].Commit == input && g.hasAny(paths) {
				given[datums[i].Name] = &datums[i]
			}
		}
	}
	if len(given) == 0 {
		return nil
	}
	err = t.each(ctx, c, func(says *Provenance, name string, key digest.ID) error {
		d := given[name]
		if d == nil {
			return nil
		}
		trace := Trace{Provenance: says, Datum: name, Key: key, Given: d.Given}
		if _, err := t.Results.made(ctx, key, func(e *tree.Entry) error { trace.Paths = append(trace.Paths, e.Path); return nil }); err != nil {
			return err
		}
		return see(trace)
	})
	if errors.Is(err, data.Stop) {
		return nil
	}
	return err
}

// hasAny says whether one of the paths, which are in order, belongs to what is given.
func (g *Given) hasAny(paths []string) bool {
	if g.Path == "" {
		return len(paths) > 0
	}
	from := g.Path
	if g.Kind == tree.Folder {
		from += "/"
	}
	i, _ := slices.BinarySearch(paths, from)
	return i < len(paths) && g.has(paths[i])
}

// each shows every datum of what a commit was made of.
func (t *Tracer) each(ctx context.Context, c *commit.Commit, see func(says *Provenance, name string, key digest.ID) error) error {
	says := ProvenanceOf(c)
	if says == nil || says.State.IsZero() {
		return fmt.Errorf("commit %s does not say what it was made of: %w", c.ID.Short(), fs.ErrNotExist)
	}
	state, err := t.States.Resolve(ctx, says.State.String())
	if err != nil {
		return fmt.Errorf("reading what commit %s was made of: %w", c.ID.Short(), err)
	}
	return eachDatum(ctx, t.Trees, state.Tree, says.Recipe, func(name string, key digest.ID) error { return see(says, name, key) })
}

// datums are those of the stage, as they were when a commit was made.
func (t *Tracer) datums(ctx context.Context, c *commit.Commit, says *Provenance) ([]Datum, error) {
	s, err := says.stage()
	if err != nil {
		return nil, fmt.Errorf("reading what commit %s was made of: %w", c.ID.Short(), err)
	}
	r := Request{Stage: s, Trees: t.Trees}
	if r.Inputs, err = inputsOf(ctx, t.States, c, says); err != nil {
		return nil, err
	}
	return r.all(ctx)
}

// PlanOf is the plan of the run that made a commit, made again: by what the stage read,
// and what it had before. What the run computed has its result since, and is reused in it.
// The error wraps [fs.ErrNotExist] where the commit does not say what it was made of, or
// that is not there any more.
func PlanOf(ctx context.Context, trees *tree.Tree, states *data.Dataset, results *data.View, c *commit.Commit) (*Plan, error) {
	says := ProvenanceOf(c)
	if says == nil || says.State.IsZero() {
		return nil, fmt.Errorf("commit %s does not say what it was made of: %w", c.ID.Short(), fs.ErrNotExist)
	}
	recipe, err := ReadRecipe(ctx, results, says.Recipe)
	if err != nil {
		return nil, err
	}
	stage, err := says.stage()
	if err != nil {
		return nil, fmt.Errorf("reading what commit %s was made of: %w", c.ID.Short(), err)
	}
	stage.Spec.Impure = says.Impure
	r := Request{Stage: stage, Recipe: recipe, Trees: trees, Run: says.Run, Results: results.Commit().Tree}
	if r.Inputs, err = inputsOf(ctx, states, c, says); err != nil {
		return nil, err
	}
	if r.Previous, err = Before(ctx, states, says.State); err != nil {
		return nil, fmt.Errorf("reading what stage %s had before: %w", says.Stage, err)
	}
	return Make(ctx, r)
}

// inputsOf are the commits that a commit was made of, by index of the stage's sources.
func inputsOf(ctx context.Context, states *data.Dataset, c *commit.Commit, says *Provenance) ([]commit.Commit, error) {
	inputs := make([]commit.Commit, len(says.Inputs))
	for i, used := range says.Inputs {
		if used.Commit.IsZero() {
			continue
		}
		var err error
		if inputs[i], err = states.Resolve(ctx, used.Commit.String()); err != nil {
			return nil, fmt.Errorf("reading input %s of commit %s: %w", used.Input, c.ID.Short(), err)
		}
	}
	return inputs, nil
}

// stage is the stage as far as its input goes.
func (p *Provenance) stage() (*Stage, error) {
	if p.Input == nil {
		return nil, errors.New("it does not say how its input was cut into datums")
	}
	// A name that no dataset has: what the stage writes is of no interest.
	g, err := Parse("/", &v1alpha1.PipelineSpec{Stages: []v1alpha1.Stage{{Name: p.Stage, Input: *p.Input, Command: []string{""}}}})
	if err != nil {
		return nil, err
	}
	s := g.Stages[0]
	if len(s.Sources) != len(p.Inputs) {
		return nil, fmt.Errorf("it names %d inputs, and its input has %d sources", len(p.Inputs), len(s.Sources))
	}
	return s, nil
}

// plain is a stage's input with its sources alone: datasets in place of stages.
func (s *Stage) plain() *v1alpha1.Input {
	in := s.Spec.Input.DeepCopy()
	next := 0
	set := func(to *v1alpha1.InputSource) {
		from := s.Sources[next]
		next++
		to.Name = from.Name
		if from.Cron == nil {
			to.Stage, to.Dataset, to.Branch = "", from.Dataset, v1alpha1.DatasetRef(from.Branch)
		}
	}
	lists := [][]v1alpha1.InputPart{in.Cross, in.Join, in.Group, in.Union}
	if len(in.Cross)+len(in.Join)+len(in.Group)+len(in.Union) == 0 {
		set(&in.InputSource)
	}
	for _, list := range lists {
		for i := range list {
			part := &list[i]
			if len(part.Cross)+len(part.Join)+len(part.Group)+len(part.Union) == 0 {
				set(&part.InputSource)
			}
			for _, leaves := range [][]v1alpha1.InputLeaf{part.Cross, part.Join, part.Group, part.Union} {
				for k := range leaves {
					set(&leaves[k].InputSource)
				}
			}
		}
	}
	return in
}
