package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/tree"
)

// Difference is one thing that is not as it was.
type Difference struct {
	// What it is: "code file train.py", "package numpy", "argument 2", "variable
	// LR", "file images/a.png".
	What string
	// New and Gone say that it was not, or is not, there.
	New, Gone bool
	// From and To are what it was and is, where that may be shown and is more than
	// a hash.
	From, To string
}

// String is the difference in words.
func (d Difference) String() string {
	switch {
	case d.New && d.To != "":
		return d.What + " is new: " + d.To
	case d.New:
		return d.What + " is new"
	case d.Gone && d.From != "":
		return d.What + " is gone: it was " + d.From
	case d.Gone:
		return d.What + " is gone"
	case d.From == "" && d.To == "":
		return d.What + " differs"
	}
	return fmt.Sprintf("%s: %s -> %s", d.What, d.From, d.To)
}

// Diff is what differs between an old recipe and this one, in the order of names. A
// part whose details are known is told by these.
func (r *Recipe) Diff(old *Recipe) []Difference {
	var all []Difference
	for _, name := range union2(old.Parts, r.Parts) {
		from, to := old.Parts[name], r.Parts[name]
		if from == to {
			continue
		}
		if details := detailed(name, old, r); len(details) > 0 {
			all = append(all, details...)
			continue
		}
		all = append(all, Difference{What: inWords(name), New: from == "", Gone: to == ""})
	}
	return all
}

// union2 are the names of two maps, in order.
func union2(a, b map[string]string) []string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(names)
	return slices.Compact(names)
}

// detailed is what differs within a part.
func detailed(part string, old, now *Recipe) []Difference {
	var all []Difference
	for _, name := range union2(old.Detail, now.Detail) {
		from, to := old.Detail[name], now.Detail[name]
		if from != to && (name == part || strings.HasPrefix(name, part+"/")) {
			all = append(all, Difference{What: inWords(name), New: from == "", Gone: to == "", From: brief(from), To: brief(to)})
		}
	}
	return all
}

// brief is a value as lines have room for it.
func brief(value string) string {
	if len(value) == 2*digest.Size && strings.Trim(value, "0123456789abcdef") == "" {
		return value[:12]
	}
	return value
}

// inWords is the name of a part or a detail as people say it.
func inWords(name string) string {
	kind, rest, found := strings.Cut(name, "/")
	if !found {
		return name
	}
	switch kind {
	case "code":
		return "code file " + rest
	case "environment":
		return "environment: " + rest
	case "command":
		return "word " + rest + " of the command"
	case "args":
		return "argument " + rest
	case "env":
		return "variable " + rest
	case "script":
		return kind // there is one
	case "spark":
		return "spark: " + inWords(rest)
	}
	return kind + " " + rest
}

// ReadRecipe reads a recipe out of the dataset of results. The error wraps
// [fs.ErrNotExist] where it is not there.
func ReadRecipe(ctx context.Context, results *data.View, id digest.ID) (*Recipe, error) {
	text, err := read(ctx, results, RecipePath(id))
	if err != nil {
		return nil, fmt.Errorf("reading recipe %s: %w", id.Short(), err)
	}
	return DecodeRecipe(text)
}

// ReadRecord reads the record of a result, or of a datum that failed. The error
// wraps [fs.ErrNotExist] where it is not there.
func ReadRecord(ctx context.Context, results *data.View, key digest.ID) (*Record, error) {
	text, err := read(ctx, results, ResultPath(key)+"/"+RecordFile)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = read(ctx, results, FailedPath(key)+"/"+RecordFile)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the record of result %s: %w", key.Short(), err)
	}
	return DecodeRecord(text)
}

func read(ctx context.Context, v *data.View, path string) ([]byte, error) {
	f, err := v.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(f)
	return text, errors.Join(err, f.Close())
}

// Explanation is why a run of a stage computes what it computes.
type Explanation struct {
	Stage string
	// Whole and Why are those of the plan.
	Whole bool
	Why   string
	// Recipe is what differs beside files from the last run; none where nothing
	// does or the old recipe is not kept any more.
	Recipe []Difference
	// Total is how many datums there are, Work how many of them have to be
	// computed, Reused how many are new or different and have a result, Same how
	// many are as they were; Gone are those of before that are not there any more.
	Total, Work, Reused, Same, Gone int64
	// Seconds is about how long all the work takes one worker, from Samples records
	// of this stage; 0: not known.
	Seconds float64
	Samples int
}

// samples is how many records an estimate is made of at most.
const samples = 64

// Explain says why the plan is what it is, and what it would cost. results may be
// nil where there are none.
func (p *Plan) Explain(ctx context.Context, results *data.View) (*Explanation, error) {
	e := &Explanation{
		Stage: p.request.Stage.Name, Whole: p.Whole, Why: p.Why,
		Total: p.Total, Work: int64(len(p.Work)), Reused: int64(len(p.Reused)),
	}
	e.Same = e.Total - e.Work - e.Reused
	now := map[string]bool{}
	for _, tasks := range [][]Task{p.Work, p.Reused} {
		for i := range tasks {
			now[tasks[i].Name] = true
		}
	}
	for _, was := range p.Gone {
		if !now[was.Name] {
			e.Gone++
		}
	}
	if results == nil {
		return e, nil
	}
	var err error
	if e.Recipe, err = p.recipeDiff(ctx, results); err != nil {
		return nil, err
	}
	if e.Work > 0 {
		err = p.estimate(ctx, results, e)
	}
	return e, err
}

// recipeDiff is what differs beside files from the last run.
func (p *Plan) recipeDiff(ctx context.Context, results *data.View) ([]Difference, error) {
	r := p.request
	if r.Previous == nil || r.Previous.Recipe == r.Recipe.ID {
		return nil, nil
	}
	old, err := ReadRecipe(ctx, results, r.Previous.Recipe)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	return r.Recipe.Diff(old), nil
}

// estimate is the mean of records: of the same datums before, else of others of the
// stage, else of what is reused.
func (p *Plan) estimate(ctx context.Context, results *data.View, e *Explanation) error {
	var keys []digest.ID
	for _, was := range p.Gone {
		if len(keys) < samples && !was.Failed {
			keys = append(keys, was.Key)
		}
	}
	for i := range p.Reused {
		if len(keys) < samples {
			keys = append(keys, p.Reused[i].Key)
		}
	}
	if prev := p.request.Previous; prev != nil && len(keys) == 0 {
		for entry, err := range p.request.Trees.From(ctx, prev.Datums, allFolder) {
			if err != nil {
				return err
			}
			if !strings.HasPrefix(entry.Path, allFolder) || len(keys) >= samples {
				break
			}
			was, err := parsePast(entry)
			if err != nil {
				return err
			}
			keys = append(keys, was.of(prev.Recipe))
		}
	}
	sum := 0.0
	for _, key := range keys {
		record, err := ReadRecord(ctx, results, key)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		sum += record.Seconds
		e.Samples++
	}
	if e.Samples > 0 {
		e.Seconds = sum / float64(e.Samples) * float64(e.Work)
	}
	return nil
}

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
			if e.Recipe, err = p.recipeDiff(ctx, results); err != nil {
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
