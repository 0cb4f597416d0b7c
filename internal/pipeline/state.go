package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/tree"
)

// State is what a stage's last successful run was made of.
type State struct {
	// Commit is the state's own.
	Commit digest.ID
	// Recipe is the recipe's ID, Shape the stage's [Stage.Shape].
	Recipe, Shape digest.ID
	// Impure says that every datum was computed for that run alone.
	Impure bool
	// Run is the identity of the run that made it.
	Run string
	// Inputs are the commits of the stage's sources as they were.
	Inputs []commit.Commit
	// Datums is the tree with the files of every datum.
	Datums tree.Root
	// Output is the commit that was made, zero where it is not known.
	Output commit.Commit
}

// Provenance is what a commit of a stage's output, and that of its state, says of
// what it was made of.
type Provenance struct {
	Pipeline string `json:"pipeline"`
	Stage    string `json:"stage"`
	// Run is the run's identity, which is common to all that one commit started.
	Run    string    `json:"run,omitempty"`
	Recipe digest.ID `json:"recipe"`
	Shape  digest.ID `json:"shape"`
	Impure bool      `json:"impure,omitempty"`
	// Input is how it was cut into datums.
	Input *v1alpha1.Input `json:"input,omitempty"`
	// Inputs are what was read, by index of the stage's sources.
	Inputs []Used `json:"inputs"`
	// State is the commit with every datum; in a state's own commit it is zero.
	State digest.ID `json:"state,omitzero"`
	// Datums is how many there were, Failed how many of them failed and were left
	// out.
	Datums int64 `json:"datums"`
	Failed int64 `json:"failed,omitempty"`
}

// Used is an input as a commit says it.
type Used struct {
	Input   string `json:"input"`
	Dataset string `json:"dataset,omitempty"`
	Branch  string `json:"branch,omitempty"`
	// Commit is zero where there was none.
	Commit digest.ID `json:"commit,omitzero"`
}

// ProvenanceOf is what a commit says of what it was made of; nil where it says
// nothing that a pipeline would.
func ProvenanceOf(c *commit.Commit) *Provenance {
	var p Provenance
	if len(c.Provenance) == 0 || json.Unmarshal(c.Provenance, &p) != nil || p.Stage == "" {
		return nil
	}
	return &p
}

// StateBranch is the branch of the dataset of states that a stage's states are on.
func StateBranch(pipeline, stage string) string { return pipeline + "." + stage }

// Previous is what the commit that a stage's output branch is at was made of; nil
// where there is none, or nothing that can be gone on from.
func Previous(ctx context.Context, output *data.Dataset, branch string, states *data.Dataset) (*State, error) {
	out, err := output.Resolve(ctx, branch)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	says := ProvenanceOf(&out)
	if says == nil || says.State.IsZero() {
		return nil, nil
	}
	// A state that no branch leads to may be there in part: a collection removes it, or has begun.
	if _, err := states.Resolve(ctx, StateBranch(says.Pipeline, says.Stage)); err != nil {
		return nil, ignoreMissing(err)
	}
	s, err := StateOf(ctx, states, says.State)
	if err != nil || s == nil {
		return nil, err
	}
	s.Output = out
	return s, nil
}

// StateOf reads a state; nil where it, or a commit that was read, is not there any
// more.
func StateOf(ctx context.Context, states *data.Dataset, id digest.ID) (*State, error) {
	c, err := states.Resolve(ctx, id.String())
	if err != nil {
		return nil, ignoreMissing(err)
	}
	says := ProvenanceOf(&c)
	if says == nil {
		return nil, fmt.Errorf("commit %s is no state of a stage", id.Short())
	}
	s := &State{Commit: c.ID, Recipe: says.Recipe, Shape: says.Shape, Impure: says.Impure, Run: says.Run, Datums: c.Tree}
	for _, used := range says.Inputs {
		var in commit.Commit
		if !used.Commit.IsZero() {
			if in, err = states.Resolve(ctx, used.Commit.String()); errors.Is(err, fs.ErrNotExist) {
				return nil, nil
			}
			if err != nil {
				return nil, err
			}
		}
		s.Inputs = append(s.Inputs, in)
	}
	return s, nil
}

// Before is the state before a state: of the stage's run before; nil where there
// was none, or it is not there any more.
func Before(ctx context.Context, states *data.Dataset, id digest.ID) (*State, error) {
	c, err := states.Resolve(ctx, id.String())
	if err != nil || len(c.Parents) == 0 {
		return nil, ignoreMissing(err)
	}
	return StateOf(ctx, states, c.Parents[0])
}

// Each shows the datums of the state, with the keys of the results that were taken,
// in the order of their names.
func (s *State) Each(ctx context.Context, trees *tree.Tree, see func(name string, key digest.ID) error) error {
	err := eachDatum(ctx, trees, s.Datums, s.Recipe, see)
	if errors.Is(err, data.Stop) {
		return nil
	}
	return err
}

// eachDatum shows the datums of a state, with the keys of the results that were
// taken, in the order of their names.
func eachDatum(ctx context.Context, trees *tree.Tree, datums tree.Root, recipe digest.ID, see func(name string, key digest.ID) error) error {
	for e, err := range trees.From(ctx, datums, allFolder) {
		if err != nil {
			return err
		}
		name, ok := strings.CutPrefix(e.Path, allFolder)
		if !ok {
			return nil
		}
		was, err := parsePast(e)
		if err == nil {
			err = see(name, was.of(recipe))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
