package pipeline

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/digest"
)

func (w *world) view(t *testing.T, name string) *data.View {
	t.Helper()
	v, err := w.dataset(name).At(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func says(all []Difference) []string {
	var said []string
	for _, d := range all {
		said = append(said, d.String())
	}
	return said
}

func TestExplain(t *testing.T) {
	w := newWorld(t)
	w.put(t, "aaa", map[string]string{"d/x": "1", "d/y": "2", "e": "3", "f": "4", "g": "5"})
	r := w.runner(t, input(v1alpha1.Input{InputSource: source("aaa", "/*")}))
	if e, err := r.plan(t).Explain(t.Context(), nil); err != nil || !e.Whole || e.Work != 4 || e.Samples != 0 || e.Why != "the stage has not run before" {
		t.Error(e, err)
	}
	r.run(t)
	w.put(t, "aaa", map[string]string{"d/x": "changed", "d/z": "", "e": "3", "f": "new", "h": "5"})
	p := r.plan(t)
	e, err := p.Explain(t.Context(), w.view(t, "results"))
	if err != nil {
		t.Fatal(err)
	}
	want := &Explanation{Stage: "s", Total: 4, Work: 3, Same: 1, Gone: 1, Seconds: 6, Samples: 3}
	if d := cmp.Diff(want, e); d != "" {
		t.Error(d)
	}
	for _, c := range []struct {
		name    string
		verdict Verdict
		isNew   bool
		files   []string // beginnings
	}{
		{"d", Computed, false, []string{"file aaa/d/x: ", "file aaa/d/y is gone: it was ", "file aaa/d/z is new: empty"}},
		{"e", Same, false, nil},
		{"f", Computed, false, []string{"file aaa/f: "}},
		{"g", Gone, false, nil},
		{"h", Computed, true, nil},
	} {
		d, err := p.ExplainDatum(t.Context(), w.view(t, "results"), c.name)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if d.Verdict != c.verdict || d.New != c.isNew || (d.Given == nil) != (c.verdict == Gone) || (d.Record == nil) != (c.verdict != Same) || d.Was.IsZero() != c.isNew {
			t.Errorf("%s: %+v", c.name, d)
		}
		if !slices.EqualFunc(c.files, says(d.Files), func(begin, all string) bool { return strings.HasPrefix(all, begin) }) {
			t.Errorf("%s: %q", c.name, says(d.Files))
		}
	}
	if _, err := p.ExplainDatum(t.Context(), nil, "nope"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestExplainRecipe: after a change of code, each datum names it; what has a result
// under the new code, too, is told apart.
func TestExplainRecipe(t *testing.T) {
	w := newWorld(t)
	w.put(t, "aaa", map[string]string{"x": "1", "y": "2"})
	r := w.runner(t, input(v1alpha1.Input{InputSource: source("aaa", "/*")}))
	first := r.recipe
	r.recipe = recipeOf(t, r.stage, Resolved{Code: Fingerprint{ID: "1", Parts: map[string]string{"a.py": "1"}}})
	r.run(t)
	r.recipe = recipeOf(t, r.stage, Resolved{Code: Fingerprint{ID: "2", Parts: map[string]string{"a.py": "2"}}})
	p := r.plan(t)
	e, err := p.Explain(t.Context(), w.view(t, "results"))
	if err != nil {
		t.Fatal(err)
	}
	changed := []string{"code file a.py: 1 -> 2"}
	if d := cmp.Diff(changed, says(e.Recipe)); d != "" || e.Work != 2 || e.Why == "" {
		t.Error(d, e)
	}
	d, err := p.ExplainDatum(t.Context(), w.view(t, "results"), "x")
	if err != nil || d.Verdict != Computed || cmp.Diff(changed, says(d.Recipe)) != "" || d.Files != nil {
		t.Error(d, err)
	}
	r.finish(t, p)
	r.recipe = first
	w.put(t, "aaa", map[string]string{"x": "1", "y": "2"})
	r.run(t)
	r.recipe = recipeOf(t, r.stage, Resolved{Code: Fingerprint{ID: "2", Parts: map[string]string{"a.py": "2"}}})
	d, err = r.plan(t).ExplainDatum(t.Context(), w.view(t, "results"), "x")
	if err != nil || d.Verdict != Reused || d.Record == nil || d.Record.Datum != "x" {
		t.Error(d, err)
	}
}

// TestTrace: from a file to what it was made of, and from there back.
func TestTrace(t *testing.T) {
	w := newWorld(t)
	in := w.put(t, "aaa", map[string]string{"d/x": "1", "d/y": "2", "e/z": "3"})
	other := w.put(t, "bbb", map[string]string{"label": "4"})
	r := w.runner(t, input(v1alpha1.Input{Cross: []v1alpha1.InputPart{part("aaa", "/*"), part("bbb", "/*")}}))
	p, out := r.run(t)
	tracer := &Tracer{Trees: w.store.Trees(), States: w.dataset("states"), Results: Results{Trees: w.store.Trees(), Root: w.head(t, "results").Tree}}
	from, err := tracer.From(t.Context(), &out, "made/aaa_d_+bbb_label")
	if err != nil {
		t.Fatal(err)
	}
	if from.Datum != "aaa/d/+bbb/label" || cmp.Diff(p.Work[0].Given, from.Given) != "" || from.Key != p.Work[0].Key {
		t.Errorf("%+v", from)
	}
	if got := from.Provenance.Inputs; len(got) != 2 || got[0].Commit != in.ID || got[1].Commit != other.ID || got[1].Dataset != "bbb" {
		t.Errorf("%+v", got)
	}
	if recipe, err := ReadRecipe(t.Context(), w.view(t, "results"), from.Provenance.Recipe); err != nil || recipe.ID != r.recipe.ID {
		t.Error(err)
	}
	for _, c := range []struct {
		input digest.ID
		path  string
		made  []string
	}{
		{in.ID, "d/x", []string{"made/aaa_d_+bbb_label"}},
		{in.ID, "nope", nil},
		{other.ID, "label", []string{"made/aaa_d_+bbb_label", "made/aaa_e_+bbb_label"}},
		{digest.ID{1}, "label", nil},
	} {
		var made []string
		err := tracer.To(t.Context(), &out, c.input, []string{"a", c.path, "zzz"}, func(tr Trace) error { made = append(made, tr.Paths...); return nil })
		if err != nil || cmp.Diff(c.made, made) != "" {
			t.Error(c.path, err, made)
		}
	}
	if _, err := tracer.From(t.Context(), &out, "nope"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := tracer.From(t.Context(), &in, "d/x"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	before, err := Before(t.Context(), w.dataset("states"), ProvenanceOf(&out).State)
	if before != nil || err != nil {
		t.Error(before, err)
	}
	w.put(t, "bbb", map[string]string{"label": "5"})
	_, next := r.run(t)
	before, err = Before(t.Context(), w.dataset("states"), ProvenanceOf(&next).State)
	if err != nil || before == nil || before.Commit != ProvenanceOf(&out).State {
		t.Error(before, err)
	}
}
