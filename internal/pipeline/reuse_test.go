package pipeline

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data/pack"
	"github.com/muster-dev/muster/internal/data/tree"
)

func want(t *testing.T, what string, r *runner, computed ...string) {
	t.Helper()
	if d := cmp.Diff(computed, r.computed); d != "" {
		t.Errorf("%s: computed (-want +got)\n%s", what, d)
	}
}

// TestReuse: a result is taken wherever files and recipe are the same, whatever the
// dataset, the branch and the history, and nowhere else.
func TestReuse(t *testing.T) {
	w := newWorld(t)
	w.put(t, "aaa", map[string]string{"x": "1", "y": "2"})
	r := w.runner(t, input(v1alpha1.Input{InputSource: source("aaa", "/*")}))
	_, first := r.run(t)
	want(t, "first", r, "x", "y")
	w.put(t, "aaa", map[string]string{"x": "1", "y": "3"})
	r.run(t)
	want(t, "one changed", r, "y")
	w.put(t, "aaa", map[string]string{"x": "1", "y": "2"})
	p, out := r.run(t)
	want(t, "reverted", r)
	if out.Tree.ID != first.Tree.ID || len(p.Reused) != 1 {
		t.Errorf("reverted: %v, output %s instead of %s", names(p.Reused), out.Tree.ID.Short(), first.Tree.ID.Short())
	}
	w.put(t, "aaa", map[string]string{"x": "1", "y": "2", "z/deep": "not in a datum of another glob"})
	r.run(t)
	want(t, "one more", r, "z")

	w.put(t, "renamed", map[string]string{"x": "1", "y": "2"})
	in := source("renamed", "/*")
	in.Name = "aaa"
	other := w.runner(t, input(v1alpha1.Input{InputSource: in}))
	other.stage.Dataset = "other"
	_, same := other.run(t)
	want(t, "a renamed dataset", other)
	if same.Tree.ID != first.Tree.ID {
		t.Error("a renamed dataset has another output")
	}

	in.Name = "mounted"
	elsewhere := w.runner(t, input(v1alpha1.Input{InputSource: in}))
	elsewhere.stage.Dataset = "elsewhere"
	elsewhere.run(t)
	want(t, "under another name", elsewhere, "x", "y")

	r.recipe = recipeOf(t, r.stage, Resolved{Code: Fingerprint{ID: "new"}})
	p, _ = r.run(t)
	want(t, "other code", r, "x", "y", "z")
	if !p.Whole {
		t.Error("other code: not everything was looked at")
	}
}

func TestAcceptKeys(t *testing.T) {
	w := newWorld(t)
	w.put(t, "aaa", map[string]string{"x": "1", "y": "2"})
	r := w.runner(t, input(v1alpha1.Input{InputSource: source("aaa", "/*")}))
	_, first := r.run(t)
	old := r.recipe.ID
	r.recipe = recipeOf(t, r.stage, Resolved{Code: Fingerprint{ID: "a comment"}})
	r.stage.Spec.AcceptKeys = []string{old.String()}
	_, out := r.run(t)
	want(t, "accepted", r)
	if out.Tree.ID != first.Tree.ID {
		t.Error("another output")
	}
	w.put(t, "aaa", map[string]string{"x": "3", "y": "2"})
	p, out := r.run(t)
	want(t, "changed", r, "x")
	if p.Whole || len(p.Gone) != 1 || p.Gone[0].Key != Key(old, p.request.Previous.files(t, w, "x")) {
		t.Errorf("%+v", p.Gone)
	}
	if d := cmp.Diff(map[string]string{"made/x": "aaa/x=3\n", "made/y": "aaa/y=2\n"}, w.contents(t, out)); d != "" {
		t.Error(d)
	}
	r.stage.Spec.AcceptKeys = nil
	r.run(t)
	want(t, "no longer accepted", r, "y")
	r.stage.Spec.AcceptKeys = []string{"nonsense"}
	if _, err := Make(t.Context(), Request{Stage: r.stage, Recipe: r.recipe, Trees: w.store.Trees(), Inputs: r.inputs(t)}); err == nil {
		t.Error("nonsense is accepted")
	}
}

// files are those of a datum in a state.
func (s *State) files(t *testing.T, w *world, name string) (id [32]byte) {
	t.Helper()
	e, err := w.store.Trees().Get(t.Context(), s.Datums, allFolder+name)
	if err != nil {
		t.Fatal(err)
	}
	was, err := parsePast(&e)
	if err != nil {
		t.Fatal(err)
	}
	return was.files
}

// TestImpure: every run computes every datum, but not twice.
func TestImpure(t *testing.T) {
	w := newWorld(t)
	w.put(t, "aaa", map[string]string{"x": "1", "y": "2"})
	s := input(v1alpha1.Input{InputSource: source("aaa", "/*")})
	s.Impure = true
	r := w.runner(t, s)
	run := ""
	r.compute = func(d *Datum, _ map[string]string) map[string]string { return map[string]string{d.Name: run} }
	for i := range 3 {
		run = fmt.Sprint("run ", i)
		_, out := r.run(t)
		want(t, run, r, "x", "y")
		if d := cmp.Diff(map[string]string{"x": run, "y": run}, w.contents(t, out)); d != "" {
			t.Error(d)
		}
	}
	state, err := Previous(t.Context(), r.dataset(r.stage.Dataset), "main", r.dataset("states"))
	if err != nil {
		t.Fatal(err)
	}
	if again := r.planFrom(t, state); len(again.Work) != 0 {
		t.Errorf("the same run computes again: %v", names(again.Work))
	}
	r.stage.Spec.Impure = false
	r.run(t)
	want(t, "no longer impure", r, "x", "y")
	r.run(t)
	want(t, "again", r)
}

// TestRecompute: what was asked for anew is taken from then on, by all; what others
// have of the old results stays whole.
func TestRecompute(t *testing.T) {
	w := newWorld(t)
	w.put(t, "aaa", map[string]string{"x": "1"})
	a, b := w.runner(t, input(v1alpha1.Input{InputSource: source("aaa", "/*")})), w.runner(t, input(v1alpha1.Input{InputSource: source("aaa", "/*")}))
	b.stage.Dataset, b.stage.Name = "other", "b"
	says := "old"
	compute := func(d *Datum, given map[string]string) map[string]string {
		return map[string]string{says + "/" + d.Name: given["aaa/"+d.Name]}
	}
	a.compute, b.compute = compute, compute
	a.run(t)
	b.run(t)
	want(t, "shared", b)
	says, a.recompute = "new", true
	_, out := a.run(t)
	want(t, "anew", a, "x")
	if d := cmp.Diff(map[string]string{"new/x": "1"}, w.contents(t, out)); d != "" {
		t.Error(d)
	}
	a.recompute = false
	if p, _ := a.run(t); !p.Nothing() {
		t.Errorf("after it: %v", names(p.Work))
	}
	w.put(t, "aaa", map[string]string{"x": "2"})
	_, out = b.run(t)
	want(t, "the other one", b, "x")
	if d := cmp.Diff(map[string]string{"new/x": "2"}, w.contents(t, out)); d != "" {
		t.Error(d)
	}
	w.put(t, "aaa", map[string]string{"x": "1"})
	_, out = b.run(t)
	want(t, "reverted", b)
	if d := cmp.Diff(map[string]string{"new/x": "1"}, w.contents(t, out)); d != "" {
		t.Error(d)
	}
}

func TestShapeCounts(t *testing.T) {
	w := newWorld(t)
	w.put(t, "aaa", map[string]string{"d/x": "1", "d/y": "2"})
	r := w.runner(t, input(v1alpha1.Input{InputSource: source("aaa", "/*/*")}))
	r.run(t)
	r.stage = stage(t, input(v1alpha1.Input{InputSource: source("aaa", "/*")}))
	p, out := r.run(t)
	want(t, "another glob", r, "d")
	if !p.Whole || len(w.contents(t, out)) != 1 {
		t.Error(p.Why, w.contents(t, out))
	}
}

// TestLostHistory: where what the last run was made of is gone, everything is looked
// at, and nothing is computed.
func TestLostHistory(t *testing.T) {
	w := newWorld(t)
	w.put(t, "aaa", map[string]string{"x": "1", "y": "2"})
	r := w.runner(t, input(v1alpha1.Input{InputSource: source("aaa", "/*")}))
	r.run(t)
	state, err := Previous(t.Context(), r.dataset(r.stage.Dataset), "main", r.dataset("states"))
	if err != nil {
		t.Fatal(err)
	}
	w.put(t, "aaa", map[string]string{"x": "1", "z": "3"})
	state.Inputs[0].Tree = tree.Root{ID: state.Inputs[0].Tree.ID, Place: pack.Place{Pack: pack.Name{9}, Stored: 8, Raw: 8}, Files: 2, Bytes: 2}
	p := r.planFrom(t, state)
	if !p.Whole || !slices.Equal(names(p.Work), []string{"z"}) || !slices.Equal(names(p.Reused), []string{"x"}) {
		t.Error(p.Why, names(p.Work), names(p.Reused))
	}
}
