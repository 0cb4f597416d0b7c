package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/tree"
)

// FailedFolder is where the output has what datums were given that failed, where
// the stage says that they are collected.
const FailedFolder = ".failed/"

// Assembly is what a run makes of a stage's output and state.
type Assembly struct {
	// Output and Datums are edits, in the order of paths.
	Output, Datums []tree.Edit
	// OutputBase and DatumsBase are the trees that they are of.
	OutputBase, DatumsBase tree.Root
	// Total and Failed count datums.
	Total, Failed int64
}

// ConflictError says that two datums made the same file.
type ConflictError struct {
	Path string
	// One and Other are the names of the datums.
	One, Other string
	// Times is an input of times that keeps the file of each time; empty: there is none.
	Times string
}

// Error implements error.
func (e *ConflictError) Error() string {
	said := fmt.Sprintf("datums %q and %q both made %q: have each write to a path of its own, such as one with the name of its input", e.One, e.Other, e.Path)
	if e.Times != "" {
		said += fmt.Sprintf(". Or set overwrite: true at the cron of input %s, which keeps the file of each time: then each time replaces the one before", e.Times)
	}
	return said
}

// MissingResultError says that a datum has no result.
type MissingResultError struct {
	Datum string
	Key   digest.ID
}

// Error implements error.
func (e *MissingResultError) Error() string {
	return fmt.Sprintf("datum %q has no result %s: compute it, or name it as failed", e.Datum, e.Key.Short())
}

// Assemble makes the stage's output of results, once every datum of the plan's
// work has one or is named as failed. It costs what the plan changes, or all of it
// where the plan is whole. Equal datums make equal trees.
func (p *Plan) Assemble(ctx context.Context, results Results, failed map[string]bool) (*Assembly, error) {
	a := &assembler{
		plan: p, results: results, failed: failed, tasks: map[string]bool{},
		made: map[string]origin{}, gone: map[string]bool{}, Assembly: &Assembly{Total: p.Total},
	}
	for _, tasks := range [][]Task{p.Work, p.Reused} {
		for i := range tasks {
			a.tasks[tasks[i].Name] = true
		}
	}
	if err := a.run(ctx); err != nil {
		return nil, fmt.Errorf("making the output of stage %s: %w", p.request.Stage.Name, err)
	}
	return a.Assembly, nil
}

// origin is a file of the output, and the datum and result that it is from.
type origin struct {
	entry tree.Entry
	datum string
	key   digest.ID
}

type assembler struct {
	*Assembly
	plan    *Plan
	results Results
	failed  map[string]bool
	// tasks are the names of datums that the plan looked at.
	tasks map[string]bool
	// made are new files of the output, by path; gone are paths of what datums made
	// that are gone or have another result now.
	made map[string]origin
	gone map[string]bool
}

func (a *assembler) run(ctx context.Context) error {
	if err := a.looked(ctx); err != nil {
		return err
	}
	a.datums()
	if err := a.base(ctx); err != nil {
		return err
	}
	paths := make([]string, 0, len(a.made)+len(a.gone))
	for path := range a.made {
		paths = append(paths, path)
	}
	for path := range a.gone {
		if _, ok := a.made[path]; !ok {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	a.Output = make([]tree.Edit, len(paths))
	for i, path := range paths {
		a.Output[i].Path = path
		if o, ok := a.made[path]; ok {
			a.Output[i].Entry = &o.entry
		}
	}
	return nil
}

// looked takes the files of the datums that the plan looked at, in the order of
// their keys, in which they lie.
func (a *assembler) looked(ctx context.Context) error {
	all := make([]*Task, 0, len(a.plan.Work)+len(a.plan.Reused))
	for _, tasks := range [][]Task{a.plan.Work, a.plan.Reused} {
		for i := range tasks {
			all = append(all, &tasks[i])
		}
	}
	slices.SortFunc(all, func(x, y *Task) int { return slices.Compare(x.Key[:], y.Key[:]) })
	for _, t := range all {
		if err := a.task(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// task takes the files of a datum that the plan looked at.
func (a *assembler) task(ctx context.Context, t *Task) error {
	if a.failed[t.Name] {
		a.Failed++
		if a.plan.request.Stage.Spec.OnFailure == v1alpha1.FailCollect {
			return a.collect(ctx, t)
		}
		return nil
	}
	return a.take(ctx, t.Name, t.Key)
}

// take takes the files of a result.
func (a *assembler) take(ctx context.Context, name string, key digest.ID) error {
	there, err := a.results.made(ctx, key, func(e *tree.Entry) error { return a.add(name, key, *e) })
	if err == nil && !there {
		err = &MissingResultError{Datum: name, Key: key}
	}
	return err
}

// add adds a file of a result. Two datums of one result make no conflict.
func (a *assembler) add(name string, key digest.ID, e tree.Entry) error {
	if other, ok := a.made[e.Path]; ok && other.key != key {
		return a.conflict(e.Path, other.datum, name)
	}
	a.made[e.Path] = origin{entry: e, datum: name, key: key}
	return nil
}

func (a *assembler) conflict(path, one, other string) error {
	if other < one {
		one, other = other, one
	}
	clash := &ConflictError{Path: path, One: one, Other: other}
	for _, s := range a.plan.request.Stage.Sources {
		if s.Cron != nil && !s.Cron.Overwrite && !s.Everything() {
			clash.Times = s.Name
		}
	}
	return clash
}

// collect takes what a datum was given that failed, and its log.
func (a *assembler) collect(ctx context.Context, t *Task) error {
	folder := FailedFolder + t.Name + "/"
	put := func(e *tree.Entry, path string) error {
		moved := *e
		moved.Path = folder + path
		if len(moved.Path) > tree.MaxPath {
			return nil // the log and the datum's name say which it was
		}
		return a.add(t.Name, t.Key, moved)
	}
	log, err := a.results.Trees.Get(ctx, a.results.Root, FailedPath(t.Key)+"/"+LogFile)
	if err == nil {
		err = put(&log, LogFile)
	}
	if ignoreMissing(err) != nil {
		return err
	}
	for i := range t.Given {
		g := &t.Given[i]
		root := a.plan.request.Inputs[g.Source].Tree
		for e, err := range a.results.Trees.From(ctx, root, g.Path) {
			if err != nil {
				return err
			}
			if !g.has(e.Path) {
				if e.Path > g.Path+"0" || !strings.HasPrefix(e.Path, g.Path) {
					break
				}
				continue
			}
			if err := put(e, "in/"+g.Input+"/"+e.Path); err != nil {
				return err
			}
		}
	}
	return nil
}

// has says whether a path of the source belongs to what is given.
func (g *Given) has(path string) bool {
	switch {
	case g.Path == "":
		return true
	case g.Kind == tree.Folder:
		return strings.HasPrefix(path, g.Path+"/")
	}
	return path == g.Path
}

// datums are the edits of the state.
func (a *assembler) datums() {
	r := a.plan.request
	var edits []tree.Edit
	for _, tasks := range [][]Task{a.plan.Work, a.plan.Reused} {
		for i := range tasks {
			t := &tasks[i]
			was := past{files: t.Files}
			if t.Key != Key(r.Recipe.ID, t.Files) {
				was.key = t.Key
			}
			edits = append(edits, tree.Edit{Path: allFolder + t.Name, Entry: was.entry(allFolder, t.Name)})
			if a.failed[t.Name] {
				edits = append(edits, tree.Edit{Path: failedFolder + t.Name, Entry: was.entry(failedFolder, t.Name)})
			} else if a.plan.base != nil {
				edits = append(edits, tree.Edit{Path: failedFolder + t.Name})
			}
		}
	}
	if a.plan.base != nil {
		a.DatumsBase = a.plan.base.Datums
		for _, was := range a.plan.Gone {
			if !a.tasks[was.Name] {
				edits = append(edits, tree.Edit{Path: allFolder + was.Name}, tree.Edit{Path: failedFolder + was.Name})
			}
		}
	}
	slices.SortFunc(edits, func(x, y tree.Edit) int { return cmp.Compare(x.Path, y.Path) })
	a.Datums = edits
}

// base finds what the new files come on top of: the previous output without what
// is gone, or, where that cannot be told, nothing.
func (a *assembler) base(ctx context.Context) error {
	p := a.plan
	if p.base == nil {
		return nil
	}
	if p.base.Output.ID.IsZero() || p.request.Stage.input.twins() {
		return a.others(ctx)
	}
	for _, was := range p.Gone {
		err := a.lose(ctx, was)
		var missing *MissingResultError
		if errors.As(err, &missing) {
			clear(a.gone)
			return a.others(ctx)
		}
		if err != nil {
			return err
		}
	}
	a.OutputBase = p.base.Output.Tree
	for path, o := range a.made {
		if a.gone[path] {
			continue
		}
		_, err := a.results.Trees.Get(ctx, a.OutputBase, path)
		if err == nil {
			return a.whose(ctx, path, o.datum)
		}
		if ignoreMissing(err) != nil {
			return err
		}
	}
	return nil
}

// lose notes what a datum made that is gone.
func (a *assembler) lose(ctx context.Context, was Lost) error {
	if !was.Failed {
		there, err := a.results.made(ctx, was.Key, func(e *tree.Entry) error { a.gone[e.Path] = true; return nil })
		if err == nil && !there {
			err = &MissingResultError{Datum: was.Name, Key: was.Key}
		}
		return err
	}
	folder := FailedFolder + was.Name + "/"
	for e, err := range a.results.Trees.From(ctx, a.plan.base.Output.Tree, folder) {
		if err != nil {
			return err
		}
		if !strings.HasPrefix(e.Path, folder) {
			break
		}
		a.gone[e.Path] = true
	}
	return nil
}

// unchanged shows the datums that are as they were, with their results.
func (a *assembler) unchanged(ctx context.Context, see func(name string, key digest.ID) error) error {
	p := a.plan
	gone := map[string]bool{}
	for _, was := range p.Gone {
		gone[was.Name] = true
	}
	return eachDatum(ctx, a.results.Trees, p.base.Datums, p.base.Recipe, func(name string, key digest.ID) error {
		if a.tasks[name] || gone[name] {
			return nil
		}
		return see(name, key)
	})
}

// others takes the files of all datums that are as they were, to make the output
// from nothing.
func (a *assembler) others(ctx context.Context) error {
	type other struct {
		name string
		key  digest.ID
	}
	var all []other
	err := a.unchanged(ctx, func(name string, key digest.ID) error {
		all = append(all, other{name, key})
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(x, y other) int { return slices.Compare(x.key[:], y.key[:]) })
	for _, o := range all {
		if err := a.take(ctx, o.name, o.key); err != nil {
			return err
		}
	}
	return nil
}

// whose is the error that a datum made a path that another one made before.
func (a *assembler) whose(ctx context.Context, path, datum string) error {
	owner := ""
	err := a.unchanged(ctx, func(name string, key digest.ID) error {
		_, err := a.results.Trees.Get(ctx, a.results.Root, ResultPath(key)+"/"+OutFolder+"/"+path)
		if err == nil {
			owner = name
		}
		return ignoreMissing(err)
	})
	if err != nil {
		return err
	}
	if owner == "" {
		return fmt.Errorf("the previous output has %q, which no datum made: nobody but the stage should write to its branch", path)
	}
	return a.conflict(path, owner, datum)
}
