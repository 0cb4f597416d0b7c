package pipeline

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/tree"
)

// Books are the datasets that a run of a stage writes to. All are of one store.
type Books struct {
	// Output is the stage's.
	Output *data.Dataset
	// States has a branch for each stage; see [StateBranch].
	States *data.Dataset
	// Results is the dataset of results, at its branch ResultsBranch.
	Results       *data.Dataset
	ResultsBranch string
	// At is the time: on that day the run's results were used, for [Sweep]. Default:
	// it is not noted, and what this run used is kept until it was used otherwise.
	At time.Time
	// Noted says that whoever recorded the results of the plan's work noted with them
	// that they are used; see [UsedPath].
	Noted bool
}

// Finish commits a stage's output and state, once every datum of the plan's work
// has a result or is named as failed: the state first, since the output's commit
// names it. A kill in between leaves a state that nothing names.
func (p *Plan) Finish(ctx context.Context, pipeline string, books Books, failed map[string]bool, o data.CommitOptions) (out commit.Commit, err error) {
	stage := p.request.Stage
	outputs, err := books.Output.Begin(ctx, stage.Branch, data.SessionOptions{})
	if err != nil {
		return commit.Commit{}, err
	}
	defer func() { err = errors.Join(err, outputs.Close(context.WithoutCancel(ctx))) }()
	// Results are looked at once the session has its lease: what is let go of later
	// stays as long as that.
	results, err := books.Results.Resolve(ctx, books.ResultsBranch)
	if ignoreMissing(err) != nil {
		return commit.Commit{}, err
	}
	if err := p.keep(ctx, outputs, results); err != nil {
		return commit.Commit{}, err
	}
	a, err := p.Assemble(ctx, Results{Trees: p.request.Trees, Root: results.Tree}, failed)
	if err != nil {
		return commit.Commit{}, err
	}
	// Both trees are built before anything is committed: one pack has all of it.
	root, err := outputs.Build(ctx, a.OutputBase, a.Output)
	if err != nil {
		return commit.Commit{}, err
	}
	datums, err := outputs.Build(ctx, a.DatumsBase, a.Datums)
	if err != nil {
		return commit.Commit{}, err
	}
	if err := p.note(ctx, outputs, books, failed); err != nil {
		return commit.Commit{}, fmt.Errorf("noting which results stage %s used: %w", stage.Name, err)
	}
	says := p.provenance(pipeline, a)
	state, err := p.state(ctx, outputs, books.States, datums, says)
	if err != nil {
		return commit.Commit{}, fmt.Errorf("committing the state of stage %s: %w", stage.Name, err)
	}
	says.State = state.ID
	if err := outputs.Become(root); err != nil {
		return commit.Commit{}, err
	}
	if o.Provenance, err = json.Marshal(says); err != nil {
		return commit.Commit{}, err
	}
	o.AllowEmpty = true
	result, err := outputs.Commit(ctx, o)
	if err != nil {
		return commit.Commit{}, fmt.Errorf("committing the output of stage %s: %w", stage.Name, err)
	}
	return result.Commit, nil
}

// keep has the session keep everything whose files may become part of its tree.
func (p *Plan) keep(ctx context.Context, s *data.Session, results commit.Commit) error {
	commits := append([]commit.Commit{results}, p.request.Inputs...)
	var ids []digest.ID
	if p.base != nil {
		commits = append(commits, p.base.Output)
		ids = append(ids, p.base.Commit)
	}
	for i := range commits {
		if id := commits[i].ID; !id.IsZero() && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return s.Take(ctx, ids...)
}

// note notes among the results which of them were used, and has what was asked for
// anew found in place of what was there, from now on.
func (p *Plan) note(ctx context.Context, s *data.Session, books Books, failed map[string]bool) error {
	var edits []tree.Edit
	if !books.At.IsZero() {
		edits = p.Used(books.At, books.Noted)
	}
	if r := p.request; r.Recompute && !r.Stage.Spec.Impure {
		edits = append(edits, p.supersede(failed)...)
	}
	if len(edits) == 0 {
		return nil
	}
	slices.SortFunc(edits, func(x, y tree.Edit) int { return cmp.Compare(x.Path, y.Path) })
	o := data.CommitOptions{Author: "muster", Message: "results of run " + p.request.Run, Orphan: true}
	_, err := s.Beside(ctx, books.Results, books.ResultsBranch, o, func(ctx context.Context, on commit.Commit) (tree.Root, error) {
		return s.Build(ctx, on.Tree, edits)
	})
	return err
}

// supersede are the edits that lead from keys to what was computed anew.
func (p *Plan) supersede(failed map[string]bool) []tree.Edit {
	var edits []tree.Edit
	for _, tasks := range [][]Task{p.Work, p.Reused} {
		for i := range tasks {
			if t := &tasks[i]; !failed[t.Name] {
				e := past{files: t.Key}.entry(ResultPath(Key(p.request.Recipe.ID, t.Files))+"/", againFile)
				edits = append(edits, tree.Edit{Path: e.Path, Entry: e})
			}
		}
	}
	return edits
}

func (p *Plan) provenance(pipeline string, a *Assembly) Provenance {
	r := p.request
	says := Provenance{
		Pipeline: pipeline, Stage: r.Stage.Name, Run: r.Run, Recipe: r.Recipe.ID, Shape: r.Stage.Shape(),
		Impure: r.Stage.Spec.Impure, Input: r.Stage.plain(), Datums: a.Total, Failed: a.Failed,
	}
	for i, s := range r.Stage.Sources {
		says.Inputs = append(says.Inputs, Used{Input: s.Name, Dataset: s.Dataset, Branch: s.Branch, Commit: r.Inputs[i].ID})
	}
	return says
}

// state commits what the next run is planned from.
func (p *Plan) state(ctx context.Context, s *data.Session, states *data.Dataset, datums tree.Root, says Provenance) (commit.Commit, error) {
	o := data.CommitOptions{Author: "muster", Message: "state of stage " + p.request.Stage.Name, AllowEmpty: true}
	var err error
	if o.Provenance, err = json.Marshal(says); err != nil {
		return commit.Commit{}, err
	}
	return s.Beside(ctx, states, StateBranch(says.Pipeline, says.Stage), o, func(context.Context, commit.Commit) (tree.Root, error) {
		return datums, nil
	})
}
