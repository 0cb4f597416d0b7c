package pipeline

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/tree"
)

// Verdict is what becomes of a datum.
type Verdict string

// The verdicts.
const (
	// Computed: it has no result yet.
	Computed Verdict = "computed"
	// Reused: it is new or different, and has a result.
	Reused Verdict = "reused"
	// Same: it is as it was.
	Same Verdict = "same"
	// Gone: it is not there any more.
	Gone Verdict = "gone"
)

// DatumExplanation is why one datum is computed or not.
type DatumExplanation struct {
	Name    string
	Verdict Verdict
	// Key is that of its result, Was that of before; zero where there is none.
	Key, Was digest.ID
	// Given is what it has; nothing where it is gone.
	Given []Given
	// New says that there was no datum of this name before, Failed that it had
	// failed.
	New, Failed bool
	// Recipe is what differs beside files, Files which files do, at most 100.
	Recipe, Files []Difference
	// Record is how the result that is taken came about, if there is one.
	Record *Record
}

// mostFiles is how many files are told.
const mostFiles = 100

// ExplainDatum says why a datum is computed or not. The error wraps
// [fs.ErrNotExist] where there is none of that name, now or before.
func (p *Plan) ExplainDatum(ctx context.Context, results *data.View, name string) (*DatumExplanation, error) {
	e := &DatumExplanation{Name: name, New: true}
	var task *Task
	for verdict, tasks := range map[Verdict][]Task{Computed: p.Work, Reused: p.Reused} {
		if i, ok := slices.BinarySearchFunc(tasks, name, func(t Task, name string) int { return strings.Compare(t.Name, name) }); ok {
			task, e.Verdict = &tasks[i], verdict
			e.Key, e.Given = task.Key, task.Given
		}
	}
	if err := p.earlier(ctx, e); err != nil {
		return nil, err
	}
	switch {
	case task != nil:
	case e.New:
		return nil, fmt.Errorf("stage %s has no datum %q: muster pipeline explain lists those that there are: %w", p.request.Stage.Name, name, fs.ErrNotExist)
	case slices.ContainsFunc(p.Gone, func(l Lost) bool { return l.Name == name }):
		e.Verdict = Gone
	default:
		e.Verdict, e.Key = Same, e.Was
		datums, err := p.request.named(ctx, map[string]bool{name: true})
		if err != nil {
			return nil, err
		}
		if len(datums) > 0 {
			e.Given = datums[0].Given
		}
	}
	if e.Verdict == Reused && e.Key == e.Was && !e.Failed {
		e.Verdict = Same
	}
	return e, p.because(ctx, results, e)
}

// earlier is what the last run had of a datum.
func (p *Plan) earlier(ctx context.Context, e *DatumExplanation) error {
	prev := p.request.Previous
	if prev == nil {
		return nil
	}
	entry, err := p.request.Trees.Get(ctx, prev.Datums, allFolder+e.Name)
	if err != nil {
		return ignoreMissing(err)
	}
	was, err := parsePast(&entry)
	if err != nil {
		return err
	}
	e.New, e.Was = false, was.of(prev.Recipe)
	_, err = p.request.Trees.Get(ctx, prev.Datums, failedFolder+e.Name)
	e.Failed = err == nil
	return ignoreMissing(err)
}

// because adds what differs, and the record.
func (p *Plan) because(ctx context.Context, results *data.View, e *DatumExplanation) error {
	var err error
	if results != nil {
		if !e.New {
			if e.Recipe, _, err = p.recipeDiff(ctx, results); err != nil {
				return err
			}
		}
		if e.Verdict != Computed && e.Verdict != Gone {
			if e.Record, err = ReadRecord(ctx, results, e.Key); ignoreMissing(err) != nil {
				return err
			}
		}
	}
	if e.New || e.Verdict == Same || e.Verdict == Gone {
		return nil
	}
	e.Files, err = p.fileDiff(ctx, e.Given)
	return err
}

// fileDiff is which files of a datum differ from what they were.
func (p *Plan) fileDiff(ctx context.Context, given []Given) ([]Difference, error) {
	r := p.request
	var all []Difference
	for i := range given {
		g := &given[i]
		if g.Source >= len(r.Previous.Inputs) {
			continue
		}
		before, now := r.Previous.Inputs[g.Source].Tree, r.Inputs[g.Source].Tree
		for c, err := range r.Trees.DiffBelow(ctx, before, now, g.Path) {
			if err != nil {
				return nil, err
			}
			if !g.has(c.Path) {
				continue
			}
			if len(all) == mostFiles {
				return all, nil
			}
			all = append(all, Difference{
				What: "file " + g.Input + "/" + c.Path, New: c.From == nil, Gone: c.To == nil, From: inShort(c.From), To: inShort(c.To),
			})
		}
	}
	return all, nil
}

// inShort is what is at a path.
func inShort(e *tree.Entry) string {
	switch {
	case e == nil:
		return ""
	case e.Kind == tree.Link:
		return "link to " + e.Target
	case e.Size == 0:
		return "empty"
	}
	return e.Content.Short()
}
