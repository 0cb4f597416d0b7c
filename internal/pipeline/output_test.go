package pipeline

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/digest"
)

// bad has datums fail whose only file says so.
func bad(d *Datum, given map[string]string) map[string]string {
	for _, content := range given {
		if content == "bad" {
			return nil
		}
	}
	return listing(d, given)
}

// TestFailures: a datum that failed is left out, tried again by the next run, and
// collected where the stage says so.
func TestFailures(t *testing.T) {
	for _, policy := range []v1alpha1.FailurePolicy{v1alpha1.FailSkip, v1alpha1.FailCollect} {
		t.Run(string(policy), func(t *testing.T) {
			w := newWorld(t)
			w.put(t, "aaa", map[string]string{"x": "1", "y": "bad", "y0": "no neighbour", "z": "bad"})
			s := input(v1alpha1.Input{InputSource: source("aaa", "/*")})
			s.OnFailure = policy
			r := w.runner(t, s)
			r.compute = bad
			_, out := r.run(t)
			good := map[string]string{"made/x": "aaa/x=1\n", "made/y0": "aaa/y0=no neighbour\n"}
			with := func(extra ...string) map[string]string {
				m := map[string]string{}
				for k, v := range good {
					m[k] = v
				}
				if policy == v1alpha1.FailCollect {
					for _, name := range extra {
						m[".failed/"+name+"/log"] = "log of " + name
						m[".failed/"+name+"/in/aaa/"+name] = "bad"
					}
				}
				return m
			}
			if d := cmp.Diff(with("y", "z"), w.contents(t, out)); d != "" {
				t.Error(d)
			}
			if says := ProvenanceOf(&out); says.Datums != 4 || says.Failed != 2 {
				t.Errorf("%+v", says)
			}
			p, out := r.run(t)
			want(t, "again", r, "y", "z")
			if d := cmp.Diff(with("y", "z"), w.contents(t, out)); d != "" || p.Whole {
				t.Error(d, p.Why)
			}
			w.put(t, "aaa", map[string]string{"x": "1", "y": "2", "y0": "no neighbour"})
			_, out = r.run(t)
			want(t, "mended", r, "y")
			good["made/y"] = "aaa/y=2\n"
			if d := cmp.Diff(with(), w.contents(t, out)); d != "" {
				t.Error(d)
			}
			if p, _ := r.run(t); !p.Nothing() || p.Total != 3 {
				t.Error(p.Total, names(p.Work))
			}
		})
	}
}

// TestFailedHere: what failed in one place and was computed in another is taken.
func TestFailedHere(t *testing.T) {
	w := newWorld(t)
	w.put(t, "aaa", map[string]string{"x": "1", "y": "2"})
	s := input(v1alpha1.Input{InputSource: source("aaa", "/*")})
	s.OnFailure = v1alpha1.FailSkip
	here, there := w.runner(t, s), w.runner(t, s)
	there.stage.Dataset, there.stage.Name = "other", "there"
	here.compute = func(*Datum, map[string]string) map[string]string { return nil }
	here.run(t)
	_, whole := there.run(t)
	want(t, "there", there, "x", "y")
	p, out := here.run(t)
	want(t, "here", here)
	if p.Whole || out.Tree.ID != whole.Tree.ID || ProvenanceOf(&out).Failed != 0 {
		t.Error(p.Why, w.contents(t, out))
	}
	if p, _ := here.run(t); !p.Nothing() {
		t.Error(names(p.Work))
	}
}

// TestConflicts: two datums that make one file are named, whether both are new or
// one of them was there before.
func TestConflicts(t *testing.T) {
	w := newWorld(t)
	w.put(t, "aaa", map[string]string{"x": "1", "y": "2"})
	r := w.runner(t, input(v1alpha1.Input{InputSource: source("aaa", "/*")}))
	r.compute = func(_ *Datum, given map[string]string) map[string]string {
		for _, content := range given {
			return map[string]string{"made/" + content: content}
		}
		return nil
	}
	r.run(t)
	for _, files := range []map[string]string{{"x": "1", "y": "2", "z": "1"}, {"x": "7", "y": "7"}, {"x": "2", "y": "2"}} {
		w.put(t, "aaa", files)
		p := r.plan(t)
		err := r.fails(t, p)
		var conflict *ConflictError
		if !errors.As(err, &conflict) || conflict.One != "x" || conflict.Other != map[string]string{"1": "z", "7": "y", "2": "y"}[files["x"]] || conflict.Path != "made/"+files["x"] {
			t.Errorf("%v: %v", files, err)
		}
	}
	// Two that change places make no conflict.
	w.put(t, "aaa", map[string]string{"x": "2", "y": "1"})
	if _, out := r.run(t); cmp.Diff(map[string]string{"made/1": "1", "made/2": "2"}, w.contents(t, out)) != "" {
		t.Error(w.contents(t, out))
	}
}

// TestConflictsOfTimes: where each time is a datum that writes one path, the message names the
// field to set.
func TestConflictsOfTimes(t *testing.T) {
	for _, overwrite := range []bool{false, true} {
		cron := v1alpha1.InputSource{Name: "tick", Glob: "/*", Cron: &v1alpha1.CronInput{Schedule: "@hourly", Overwrite: overwrite}}
		p := &Plan{request: &Request{Stage: stage(t, input(v1alpha1.Input{InputSource: cron}))}}
		err := (&assembler{plan: p}).conflict("ls.txt", "1", "2")
		if says := strings.Contains(err.Error(), "set overwrite: true at the cron of input tick"); says == overwrite {
			t.Errorf("overwrite %v: %v", overwrite, err)
		}
	}
}

// fails records results for a plan, and is why it cannot be finished.
func (r *runner) fails(t *testing.T, p *Plan) error {
	t.Helper()
	recorded := map[string]string{}
	cache := map[digest.ID]map[string]string{}
	for i := range p.Work {
		folder := ResultPath(p.Work[i].Key)
		recorded[folder+"/"+RecordFile] = "{}"
		for path, content := range r.compute(&p.Work[i].Datum, r.files(t, &p.Work[i].Datum, p.request.Inputs, cache)) {
			recorded[folder+"/"+OutFolder+"/"+path] = content
		}
	}
	r.add(t, "results", recorded, data.CommitOptions{Orphan: true})
	before := r.head(t, r.stage.Dataset)
	_, err := p.Finish(t.Context(), "p", r.books(), nil, data.CommitOptions{})
	if now := r.head(t, r.stage.Dataset); now.ID != before.ID {
		t.Error("something was committed")
	}
	return err
}

func TestMissingResult(t *testing.T) {
	w := newWorld(t)
	w.put(t, "aaa", map[string]string{"x": "1"})
	r := w.runner(t, input(v1alpha1.Input{InputSource: source("aaa", "/*")}))
	p := r.plan(t)
	_, err := p.Finish(t.Context(), "p", r.books(), nil, data.CommitOptions{})
	var missing *MissingResultError
	if !errors.As(err, &missing) || missing.Datum != "x" || missing.Key != p.Work[0].Key {
		t.Error(err)
	}
}

// TestStrangeOutput: nobody but the stage writes to its branch; if somebody does, it
// is put right, or said.
func TestStrangeOutput(t *testing.T) {
	w := newWorld(t)
	w.put(t, "aaa", map[string]string{"x": "1"})
	r := w.runner(t, input(v1alpha1.Input{InputSource: source("aaa", "/*")}))
	_, first := r.run(t)
	w.add(t, r.stage.Dataset, map[string]string{"stranger": "here"}, data.CommitOptions{})
	p, out := r.run(t)
	want(t, "a stranger", r)
	if !p.Whole || out.Tree.ID != first.Tree.ID {
		t.Error(w.contents(t, out))
	}
}

// TestRemovedResults: where results of before are gone, the output is made from what
// is there.
func TestRemovedResults(t *testing.T) {
	w := newWorld(t)
	w.put(t, "aaa", map[string]string{"x": "1", "y": "2"})
	r := w.runner(t, input(v1alpha1.Input{InputSource: source("aaa", "/*")}))
	p, _ := r.run(t)
	s, err := w.dataset("results").Begin(t.Context(), "main", data.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := s.Remove(t.Context(), ResultPath(p.Work[1].Key)); err != nil || n == 0 {
		t.Fatal(n, err)
	}
	if _, err := s.Commit(t.Context(), data.CommitOptions{}); err != nil {
		t.Fatal(err)
	}
	w.put(t, "aaa", map[string]string{"x": "1", "y": "3"})
	_, out := r.run(t)
	want(t, "changed", r, "y")
	if d := cmp.Diff(map[string]string{"made/x": "aaa/x=1\n", "made/y": "aaa/y=3\n"}, w.contents(t, out)); d != "" {
		t.Error(d)
	}
}

// TestNothingMade: a datum may make nothing, and a glob may match nothing.
func TestNothingMade(t *testing.T) {
	w := newWorld(t)
	w.put(t, "aaa", map[string]string{"x": "1"})
	r := w.runner(t, input(v1alpha1.Input{InputSource: source("aaa", "/*")}))
	r.compute = func(*Datum, map[string]string) map[string]string { return map[string]string{} }
	if _, out := r.run(t); out.Tree.Files != 0 || out.ID.IsZero() {
		t.Errorf("%+v", out)
	}
	if p, _ := r.run(t); !p.Nothing() || p.Total != 1 {
		t.Error(p.Total, names(p.Work))
	}
	w.put(t, "aaa", nil)
	if p, out := r.run(t); p.Total != 0 || len(p.Gone) != 1 || out.Tree.Files != 0 {
		t.Error(p.Total, out.Tree.Files)
	}
}

func TestErrorsName(t *testing.T) {
	for _, c := range []struct {
		err  error
		says string
	}{
		{&ConflictError{Path: "a", One: "x", Other: "y"}, `datums "x" and "y" both made "a"`},
		{&MissingResultError{Datum: "x"}, `datum "x" has no result`},
	} {
		if !strings.Contains(c.err.Error(), c.says) {
			t.Errorf("%v", c.err)
		}
	}
}

// TestTwins: two datums that are given the same have one result, and what it made
// stays as long as one of them is there.
func TestTwins(t *testing.T) {
	w := newWorld(t)
	in := func(dataset string) v1alpha1.InputPart {
		s := source(dataset, "/*")
		s.Name = "in"
		return v1alpha1.InputPart{InputSource: s}
	}
	r := w.runner(t, input(v1alpha1.Input{Union: []v1alpha1.InputPart{in("aaa"), in("bbb")}}))
	r.compute = func(_ *Datum, given map[string]string) map[string]string { return given }
	for _, c := range []struct {
		name     string
		aaa, bbb map[string]string
		computed int
		made     map[string]string
	}{
		{"both", map[string]string{"x": "1", "y": "2"}, map[string]string{"x": "1", "z": "3"}, 4, map[string]string{"in/x": "1", "in/y": "2", "in/z": "3"}},
		{"one goes", map[string]string{"y": "2"}, map[string]string{"x": "1", "z": "3"}, 0, map[string]string{"in/x": "1", "in/y": "2", "in/z": "3"}},
		{"it comes again", map[string]string{"x": "1", "y": "2"}, map[string]string{"x": "1", "z": "3"}, 0, map[string]string{"in/x": "1", "in/y": "2", "in/z": "3"}},
		{"both go", map[string]string{"y": "2"}, map[string]string{"z": "4"}, 1, map[string]string{"in/y": "2", "in/z": "4"}},
	} {
		w.put(t, "aaa", c.aaa)
		w.put(t, "bbb", c.bbb)
		_, out := r.run(t)
		if d := cmp.Diff(c.made, w.contents(t, out)); d != "" || len(r.computed) != c.computed {
			t.Errorf("%s: computed %v\n%s", c.name, r.computed, d)
		}
	}
	w.put(t, "aaa", map[string]string{"z": "5"})
	var conflict *ConflictError
	if err := r.fails(t, r.plan(t)); !errors.As(err, &conflict) || conflict.Path != "in/z" {
		t.Error(err)
	}
}
