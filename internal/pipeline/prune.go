package pipeline

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/tree"
)

// usedFolder has a folder for each day on which results were used, and in it an
// empty file for each of them. A result is used when it is recorded, when a plan
// takes it, and when a stage's state lets go of it. It may be removed once no stage's
// last state has it, and it was not used for as many days as results are kept.
const usedFolder = "used/"

// day is a day as folders are named, in UTC.
func day(at time.Time) string { return at.UTC().Format(time.DateOnly) }

// UsedPath is the path of the empty file which says that a result was used on a
// day. Whoever records a result may write it, too, so that what a run recorded that
// never ended goes as well: a result without any is kept.
func UsedPath(at time.Time, key digest.ID) string {
	return usedFolder + day(at) + "/" + ResultPath(key)
}

// Used are the edits of the dataset of results which say that what the plan computed,
// took and let go of was used at a time. There are as many as the plan has changes.
func (p *Plan) Used(at time.Time) []tree.Edit {
	seen := map[digest.ID]bool{}
	var edits []tree.Edit
	use := func(key digest.ID) {
		if seen[key] {
			return
		}
		seen[key] = true
		path := UsedPath(at, key)
		edits = append(edits, tree.Edit{Path: path, Entry: &tree.Entry{Path: path, Kind: tree.File}})
	}
	for _, tasks := range [][]Task{p.Work, p.Reused} {
		for i := range tasks {
			use(tasks[i].Key)
		}
	}
	for _, was := range p.Gone {
		if !was.Failed {
			use(was.Key)
		}
	}
	return edits
}

// Sweep removes results that no stage's last state has and that were not used for as
// long as results are kept, and says how many. Last states are where the branches
// of the dataset of states are: that of a stage which is no more is to be removed.
func Sweep(ctx context.Context, trees *tree.Tree, books Books, keep time.Duration) (int, error) {
	heads, err := books.States.Heads(ctx)
	if err != nil {
		return 0, err
	}
	// Results are read before states: what a run takes meanwhile was used today.
	results, err := books.Results.Resolve(ctx, books.ResultsBranch)
	if err != nil {
		return 0, ignoreMissing(err)
	}
	var states []*State
	for _, head := range heads {
		c, err := books.States.Resolve(ctx, head.Commit.String())
		if err != nil {
			return 0, err
		}
		if says := ProvenanceOf(&c); says != nil {
			states = append(states, &State{Commit: c.ID, Recipe: says.Recipe, Datums: c.Tree})
		}
	}
	edits, err := Prune(ctx, Results{Trees: trees, Root: results.Tree}, states, books.At, keep)
	if err != nil || len(edits) == 0 {
		return 0, err
	}
	removed := 0
	for _, e := range edits {
		if strings.HasSuffix(e.Path, "/"+RecordFile) {
			removed++
		}
	}
	return removed, edit(ctx, books, edits, "results that nobody used for long are removed")
}

// Prune finds which results may be removed at a time: edits of the dataset of
// results, in no order. states are the last states of all stages: what one of them
// has stays. It costs what was used on the days that are over, and all datums of
// all stages if that is anything.
func Prune(ctx context.Context, results Results, states []*State, at time.Time, keep time.Duration) ([]tree.Edit, error) {
	p := &pruner{Results: results, last: day(at.Add(-keep)), live: map[digest.ID]bool{}}
	if err := p.days(ctx); err != nil {
		return nil, fmt.Errorf("looking for results that were not used since %s: %w", p.last, err)
	}
	if len(p.over) == 0 {
		return p.edits, nil
	}
	for _, s := range states {
		err := s.Each(ctx, results.Trees, func(_ string, key digest.ID) error {
			p.live[key] = true
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("reading which results are in use: %w", err)
		}
	}
	for _, key := range p.over {
		if err := p.remove(ctx, key); err != nil {
			return nil, fmt.Errorf("removing result %s: %w", key.Short(), err)
		}
	}
	return p.edits, nil
}

type pruner struct {
	Results
	// last is the last day whose use does not count any more.
	last string
	// over are results that were used then, young the days after.
	over  []digest.ID
	young []string
	live  map[digest.ID]bool
	edits []tree.Edit
}

// days reads which results were used on days that are over.
func (p *pruner) days(ctx context.Context) error {
	seen := map[digest.ID]bool{}
	for at := usedFolder; ; {
		next := ""
		for e, err := range p.Trees.From(ctx, p.Root, at) {
			if err != nil {
				return err
			}
			rest, ok := strings.CutPrefix(e.Path, usedFolder)
			if !ok {
				return nil
			}
			on, path, _ := strings.Cut(rest, "/")
			if on > p.last {
				p.young = append(p.young, on)
				next = usedFolder + on + "0" // behind all of that day
				break
			}
			p.edits = append(p.edits, tree.Edit{Path: e.Path})
			key, err := digest.Parse(strings.Replace(path, "/", "", 1))
			if err != nil {
				return fmt.Errorf("%q: %w", e.Path, err)
			}
			if !seen[key] {
				seen[key] = true
				p.over = append(p.over, key)
			}
		}
		if next == "" {
			return nil
		}
		at = next
	}
}

// remove removes a result that is not live and was not used since.
func (p *pruner) remove(ctx context.Context, key digest.ID) error {
	path := ResultPath(key)
	if p.live[key] {
		// It is asked again when the state lets go of it: that is a use.
		return nil
	}
	for _, on := range p.young {
		_, err := p.Trees.Get(ctx, p.Root, usedFolder+on+"/"+path)
		if err == nil {
			return nil
		}
		if ignoreMissing(err) != nil {
			return err
		}
	}
	for _, folder := range []string{path + "/", FailedPath(key) + "/"} {
		for e, err := range p.Trees.From(ctx, p.Root, folder) {
			if err != nil {
				return err
			}
			if !strings.HasPrefix(e.Path, folder) {
				break
			}
			p.edits = append(p.edits, tree.Edit{Path: e.Path})
		}
	}
	return nil
}
