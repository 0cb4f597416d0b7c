package pipeline

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/digest"
)

// chain is two stages: one makes a file of each file of aaa, the other one of all of these
// and a label.
func chain(t *testing.T) (w *world, first, second *runner) {
	t.Helper()
	w = newWorld(t)
	w.put(t, "aaa", map[string]string{"x": "1", "y": "2"})
	w.put(t, "bbb", map[string]string{"label": "4"})
	first = w.runner(t, input(v1alpha1.Input{InputSource: source("aaa", "/*")}))
	first.run(t)
	s := input(v1alpha1.Input{Cross: []v1alpha1.InputPart{part(first.stage.Dataset, "/"), part("bbb", "/*")}})
	s.Output = &v1alpha1.StageOutput{Dataset: "models"}
	second = w.runner(t, s)
	second.states = "states-of-models"
	second.run(t)
	return w, first, second
}

func (w *world) tracer(t *testing.T) *Tracer {
	t.Helper()
	return &Tracer{Trees: w.store.Trees(), States: w.dataset("states"), Results: Results{Trees: w.store.Trees(), Root: w.head(t, "results").Tree}}
}

// told is an origin, a line for each that it has.
func told(o *Origin, indent string) []string {
	line := fmt.Sprintf("%s%s:%s %d", indent, o.Dataset, o.Path, o.Files)
	if o.Made != nil {
		line += fmt.Sprintf(" by %s of %s (%s)", o.Made.Provenance.Stage, o.Made.Provenance.Pipeline, o.Made.Datum)
	}
	if o.Told {
		line += " told"
	}
	lines := []string{line}
	for _, from := range o.From {
		lines = append(lines, told(from, indent+"  ")...)
	}
	return lines
}

// TestOrigin goes from a file back to what people put.
func TestOrigin(t *testing.T) {
	w, first, _ := chain(t)
	tracer, model, made := w.tracer(t), w.head(t, "models"), first.stage.Dataset
	var path string
	for path = range w.contents(t, model) {
		break // there is one
	}
	for _, c := range []struct {
		dataset, path string
		want          []string
	}{
		{"models", path, []string{
			"models:" + path + " 1 by s of p (" + made + "/+bbb/label)",
			"  bbb:label 1",
			"  " + made + ": 2 by s of p ()",
			"    aaa: 2",
		}},
		{"models", "", []string{
			"models: 1 by s of p ()",
			"  " + made + ": 2 by s of p ()",
			"    aaa: 2",
			"  bbb: 1",
		}},
		{made, "made/x", []string{made + ":made/x 1 by s of p (x)", "  aaa:x 1"}},
		{made, "made", []string{made + ":made 2 by s of p ()", "  aaa: 2"}},
		{"aaa", "x", []string{"aaa:x 1"}},
	} {
		o, err := tracer.Origin(t.Context(), c.dataset, w.head(t, c.dataset), c.path)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c.want, told(o, "")); d != "" {
			t.Errorf("%s:%s: %s", c.dataset, c.path, d)
		}
	}
	if _, err := tracer.Origin(t.Context(), "aaa", w.head(t, "aaa"), "nope"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestDescendants goes from a file to everything that was made of it.
func TestDescendants(t *testing.T) {
	w, first, second := chain(t)
	heads := func() (all []Head) {
		for _, name := range []string{"models", first.stage.Dataset, "aaa"} {
			all = append(all, Head{name, w.head(t, name)})
		}
		return all
	}
	of := func(among []Head, dataset string, c commit.Commit, path string) []string {
		t.Helper()
		e, err := w.store.Trees().Get(t.Context(), c.Tree, path)
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		err = w.tracer(t).Descendants(t.Context(), among, dataset, map[string]digest.ID{path: e.Content}, func(d Descendant) error {
			found = append(found, d.Of+" > "+d.Dataset+":"+strings.Join(d.Paths, ","))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(found)
		return found
	}
	made, before := first.stage.Dataset, heads()
	old := w.head(t, "aaa")
	all := "made/" + made + "_+bbb_label"
	if d := cmp.Diff([]string{"aaa > " + made + ":made/x", made + " > models:" + all}, of(before, "aaa", old, "x")); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"bbb > models:" + all}, of(before, "bbb", w.head(t, "bbb"), "label")); d != "" {
		t.Error(d)
	}
	// x changes: of what it was nothing is there any more but in the commits of before, and
	// of y, which stays as it was, there is still all.
	w.put(t, "aaa", map[string]string{"x": "changed", "y": "2"})
	first.run(t)
	second.run(t)
	if got := of(heads(), "aaa", old, "x"); got != nil {
		t.Errorf("of what x was: %q", got)
	}
	if got := of(append(heads(), before...), "aaa", old, "x"); len(got) != 2 {
		t.Errorf("of what x was, before, too: %q", got)
	}
	if d := cmp.Diff([]string{"aaa > " + made + ":made/y", made + " > models:" + all}, of(heads(), "aaa", old, "y")); d != "" {
		t.Error(d)
	}
}

// TestPlanOf explains datums of runs that are over.
func TestPlanOf(t *testing.T) {
	w := newWorld(t)
	w.put(t, "aaa", map[string]string{"d/x": "1", "d/y": "2", "e": "3", "f": "4", "g": "5"})
	r := w.runner(t, input(v1alpha1.Input{InputSource: source("aaa", "/*")}))
	_, first := r.run(t)
	w.put(t, "aaa", map[string]string{"d/x": "changed", "d/y": "2", "e": "3", "f": "4", "h": "6"})
	_, second := r.run(t)
	w.put(t, "aaa", map[string]string{"d/x": "1", "d/y": "2", "e": "3", "f": "4", "h": "6"})
	_, third := r.run(t)
	for _, c := range []struct {
		of      commit.Commit
		datum   string
		verdict Verdict
		isNew   bool
		files   string
	}{
		{first, "d", Reused, true, ""},
		{second, "d", Reused, false, "file aaa/d/x: "},
		{second, "e", Same, false, ""},
		{second, "g", Gone, false, ""},
		{second, "h", Reused, true, ""},
		{third, "d", Reused, false, "file aaa/d/x: "},
	} {
		plan, err := PlanOf(t.Context(), w.store.Trees(), w.dataset("states"), w.view(t, "results"), &c.of)
		if err != nil {
			t.Fatal(err)
		}
		e, err := plan.ExplainDatum(t.Context(), w.view(t, "results"), c.datum)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(says(e.Files), "\n"); e.Verdict != c.verdict || e.New != c.isNew || !strings.HasPrefix(got, c.files) || c.files == "" && got != "" {
			t.Errorf("%s: %s, new: %v, %s", c.datum, e.Verdict, e.New, got)
		}
	}
	for _, c := range []commit.Commit{w.head(t, "aaa"), {}} {
		if _, err := PlanOf(t.Context(), w.store.Trees(), w.dataset("states"), w.view(t, "results"), &c); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("of what no stage made: %v", err)
		}
	}
}
