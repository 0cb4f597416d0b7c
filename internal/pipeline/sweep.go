package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/tree"
)

// Sweeping says what a sweep is about. All of it is of one store.
type Sweeping struct {
	// Trees reads all trees.
	Trees *tree.Tree
	// Results is a dataset of results, at its branch Branch. Whoever takes results
	// of it takes part in Hold.
	Results *data.Dataset
	Branch  string
	// Hold finds out what keeps results. It is asked once the results were read, so
	// that what is taken meanwhile was used on the day of the sweep.
	Hold func(context.Context) (Holding, error)
	// At is the time, Keep how long after its last use a result stays that nobody
	// has.
	At   time.Time
	Keep time.Duration
	// DryRun only says what would go.
	DryRun bool
}

// Swept is what a sweep removed.
type Swept struct {
	// Results is how many results went, and Failed what was kept of how many datums
	// that had failed.
	Results, Failed int
	// Datums is of how many datums of runs that are gone the name went.
	Datums int
}

// Any says that something went.
func (s Swept) Any() bool { return s != Swept{} }

// Sweep removes results that no stage's last state has and that were not used for as
// long as results are kept, all by one commit: killed at any moment, it has removed
// all of them or none. Their bytes go with the next collection.
func Sweep(ctx context.Context, o Sweeping) (swept Swept, err error) {
	session, err := o.Results.Begin(ctx, o.Branch, data.SessionOptions{})
	if err != nil {
		return swept, fmt.Errorf("sweeping results: %w", err)
	}
	defer func() { err = errors.Join(err, session.Close(context.WithoutCancel(ctx))) }()
	if session.Base() == nil {
		return swept, nil // there has never been any
	}
	root := session.Base().Commit().Tree
	holding, err := o.Hold(ctx)
	if err != nil {
		return swept, fmt.Errorf("finding out which results are needed: %w", err)
	}
	edits, err := Prune(ctx, Results{Trees: o.Trees, Root: root}, holding, o.At, o.Keep)
	if err != nil || len(edits) == 0 {
		return swept, err
	}
	for _, e := range edits {
		switch {
		case e.Entry != nil: // a use
		case strings.HasPrefix(e.Path, RunsFolder):
			swept.Datums++
		case !strings.HasSuffix(e.Path, "/"+RecordFile):
		case strings.HasPrefix(e.Path, failedFolder):
			swept.Failed++
		default:
			swept.Results++
		}
		if err := session.Set(ctx, e.Path, e.Entry); err != nil {
			return Swept{}, err
		}
	}
	if o.DryRun {
		return swept, nil
	}
	_, err = session.Commit(ctx, data.CommitOptions{Author: "muster", Message: "results that nobody used for long are removed", Orphan: true})
	if err != nil {
		return Swept{}, err
	}
	return swept, nil
}

// LastStates are where the branches of a dataset of states are. there says whether
// a stage, whose last state that is, may still go on from it; its results are kept
// then. Default: all of them.
func LastStates(ctx context.Context, states *data.Dataset, there func(*commit.Commit, *Provenance) bool) ([]*State, error) {
	heads, err := states.Heads(ctx)
	if err != nil {
		return nil, err
	}
	var all []*State
	seen := map[digest.ID]bool{}
	for _, head := range heads {
		if seen[head.Commit] {
			continue
		}
		seen[head.Commit] = true
		c, err := states.Resolve(ctx, head.Commit.String())
		if err != nil {
			return nil, err
		}
		if says := ProvenanceOf(&c); says != nil && (there == nil || there(&c, says)) {
			all = append(all, &State{Commit: c.ID, Recipe: says.Recipe, Datums: c.Tree})
		}
	}
	return all, nil
}
