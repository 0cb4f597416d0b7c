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
		if from == "" && old.Parts[name] != "" || to == "" && now.Parts[name] != "" {
			continue // one of them does not say what it was
		}
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
		return ReadFailed(ctx, results, key)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the record of result %s: %w", key.Short(), err)
	}
	return DecodeRecord(text)
}

// ReadFailed reads the record of a datum that failed, of which there may be a result, too.
// The error wraps [fs.ErrNotExist] where it is not there.
func ReadFailed(ctx context.Context, results *data.View, key digest.ID) (*Record, error) {
	text, err := read(ctx, results, FailedPath(key)+"/"+RecordFile)
	if err != nil {
		return nil, fmt.Errorf("reading the record of failure %s: %w", key.Short(), err)
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
	// Brought says that it is not the last run, of which there is none, but what was
	// brought from another Muster.
	Brought bool
	// Total is how many datums there are, Work how many of them have to be
	// computed, Reused how many are new or different and have a result, Same how
	// many are as they were; Gone are those of before that are not there any more.
	Total, Work, Reused, Same, Gone int64
	// Seconds is about how long all the work takes one worker, from Samples records
	// of this stage; 0: not known.
	Seconds float64
	Samples int
	// GPUSeconds are GPUs x seconds of that.
	GPUSeconds float64
}

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
	if e.Recipe, e.Brought, err = p.recipeDiff(ctx, results); err != nil {
		return nil, err
	}
	if e.Work == 0 {
		return e, nil
	}
	c, err := p.Cost(ctx, results)
	e.Samples, e.Seconds, e.GPUSeconds = c.Samples, c.Seconds*float64(e.Work), c.GPUSeconds*float64(e.Work)
	return e, err
}

// recipeDiff is what differs beside files from the last run or, where there is none, from
// the recipe of which results were brought from another Muster.
func (p *Plan) recipeDiff(ctx context.Context, results *data.View) (diff []Difference, brought bool, err error) {
	r := p.request
	var id digest.ID
	if brought = r.Previous == nil; !brought {
		id = r.Previous.Recipe
	} else if text, err := read(ctx, results, BroughtPath(r.Pipeline, r.Stage.Name)); err != nil {
		return nil, false, ignoreMissing(err)
	} else if id, err = digest.Parse(string(text)); err != nil {
		return nil, false, fmt.Errorf("reading what was brought for stage %s: %w", r.Stage.Name, err)
	}
	if id == r.Recipe.ID {
		return nil, brought, nil
	}
	old, err := ReadRecipe(ctx, results, id)
	if err != nil {
		return nil, brought, ignoreMissing(err)
	}
	return r.Recipe.Diff(old), brought, nil
}
