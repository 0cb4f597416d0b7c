package pipeline

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/backend/faulty"
	"github.com/muster-dev/muster/internal/data/digest"
)

const aDay = 24 * time.Hour

// sweep sweeps what was not used for a week, with the states of some runners.
func (w *world) sweep(t *testing.T, at time.Time, needed map[digest.ID]bool, runners ...*runner) Swept {
	t.Helper()
	swept, err := w.sweepWith(t, w.dataset("results"), at, needed, runners...)
	if err != nil {
		t.Fatal(err)
	}
	return swept
}

func (w *world) sweepWith(t *testing.T, results *data.Dataset, at time.Time, needed map[digest.ID]bool, runners ...*runner) (Swept, error) {
	return Sweep(t.Context(), Sweeping{
		Trees: w.store.Trees(), Results: results, Branch: "main", At: at, Keep: 7 * aDay,
		Hold: func(ctx context.Context) (Holding, error) {
			h := Holding{Needed: needed, Run: func(name string) bool { return name != "gone" }}
			for _, r := range runners {
				states, err := LastStates(ctx, r.books().States, nil)
				if err != nil {
					return h, err
				}
				h.States = append(h.States, states...)
			}
			return h, nil
		},
	})
}

// records are the results that there are.
func (w *world) records(t *testing.T) (n int) {
	t.Helper()
	for path := range w.contents(t, w.head(t, "results")) {
		if strings.HasSuffix(path, "/"+RecordFile) {
			n++
		}
	}
	return n
}

// days is a runner of a stage over each file of aaa, late on a day.
func (w *world) days(t *testing.T) *runner {
	t.Helper()
	r := w.runner(t, input(v1alpha1.Input{InputSource: source("aaa", "/*")}))
	r.at = time.Date(2026, 1, 1, 23, 0, 0, 0, time.UTC)
	return r
}

// TestSweep: what no stage has and nobody used for long goes, and nothing else.
func TestSweep(t *testing.T) {
	w := newWorld(t)
	r := w.days(t)
	run := func(files map[string]string) {
		w.put(t, "aaa", files)
		r.run(t)
	}
	sweep := func() int {
		before := w.records(t)
		swept := w.sweep(t, r.at, nil, r)
		left := w.records(t)
		if swept.Results != before-left {
			t.Errorf("%d results of %d are left, and %d were removed", left, before, swept.Results)
		}
		return left
	}
	pass := func(days int) { r.at = r.at.AddDate(0, 0, days) }
	run(map[string]string{"x": "1", "y": "2"})
	pass(6)
	run(map[string]string{"x": "1", "y": "3"}) // lets go of y=2
	pass(2)
	if left := sweep(); left != 3 {
		t.Errorf("after 8 days: %d results", left)
	}
	run(map[string]string{"x": "1", "y": "2"}) // takes y=2, lets go of y=3
	pass(6)
	if left := sweep(); left != 3 {
		t.Errorf("after 14 days: %d results", left)
	}
	pass(1)
	if left := sweep(); left != 2 {
		t.Errorf("after 15 days: %d results", left)
	}
	pass(100)
	if left := sweep(); left != 2 {
		t.Errorf("in use: %d results", left)
	}
	run(nil)
	pass(7)
	if left := sweep(); left != 0 {
		t.Errorf("after all: %d results", left)
	}
}

// TestSweepShared: results are those of all pipelines of a namespace, and what one
// of them has stays.
func TestSweepShared(t *testing.T) {
	w := newWorld(t)
	one, other := w.days(t), w.days(t)
	other.states, other.stage.Dataset = "other-states", "other"
	w.put(t, "aaa", map[string]string{"x": "1", "y": "2"})
	one.run(t)
	if p, _ := other.run(t); len(p.Work) != 0 {
		t.Errorf("the other computed %v", names(p.Work))
	}
	w.put(t, "aaa", map[string]string{"x": "1"})
	one.run(t) // lets go of y
	later := one.at.Add(20 * aDay)
	if swept := w.sweep(t, later, nil, one, other); swept.Any() {
		t.Errorf("the other pipeline has it, and it went: %+v", swept)
	}
	other.run(t)
	if swept := w.sweep(t, later.Add(20*aDay), nil, one, other); swept.Results != 1 || w.records(t) != 1 {
		t.Errorf("nobody has it any more: %+v", swept)
	}
}

// TestSweepNeeded: what a run has taken that has not ended stays, and what was
// noted of a run that is gone goes.
func TestSweepNeeded(t *testing.T) {
	w := newWorld(t)
	r := w.days(t)
	w.put(t, "aaa", map[string]string{"x": "1"})
	_, out := r.run(t)
	w.put(t, "aaa", map[string]string{"x": "2"})
	r.run(t)
	w.add(t, "results", map[string]string{
		RunsFolder + "gone/s/x~": "1", RunsFolder + "gone/s/y~": "2", RunsFolder + "there/s/x~": "3", FailedPath(digest.ID{7}) + "/" + RecordFile: "{}",
		UsedPath(r.at, digest.ID{7}): "",
	}, data.CommitOptions{Orphan: true})
	// Back to the first: planned, and not yet done.
	if err := w.dataset("aaa").Reset(t.Context(), "main", ProvenanceOf(&out).Inputs[0].Commit.String()); err != nil {
		t.Fatal(err)
	}
	p := r.plan(t)
	if len(p.Reused) != 1 {
		t.Fatalf("%+v", p)
	}
	r.at = r.at.Add(30 * aDay)
	needed := map[digest.ID]bool{p.Reused[0].Key: true}
	if diff := cmp.Diff(Swept{Failed: 1, Datums: 2}, w.sweep(t, r.at, needed, r)); diff != "" {
		t.Error(diff)
	}
	again := r.finish(t, p)
	if diff := cmp.Diff(map[string]string{"made/x": "aaa/x=1\n"}, w.contents(t, again)); diff != "" {
		t.Error(diff)
	}
	if w.contents(t, w.head(t, "results"))[RunsFolder+"there/s/x~"] != "3" {
		t.Error("the datum of a run that is there went")
	}
	// Without that word it goes, and whoever has taken it is told by name.
	w.put(t, "aaa", map[string]string{"x": "2"})
	p = r.plan(t)
	w.sweep(t, r.at.Add(30*aDay), nil, r)
	_, err := p.Finish(t.Context(), "p", r.books(), nil, data.CommitOptions{})
	if missing, ok := errors.AsType[*MissingResultError](err); !ok || missing.Datum != "x" {
		t.Errorf("%v", err)
	}
}

// TestSweepAgain: a result that was asked for anew is found by its old key as long
// as it is in use.
func TestSweepAgain(t *testing.T) {
	w := newWorld(t)
	r := w.days(t)
	w.put(t, "aaa", map[string]string{"x": "1"})
	r.run(t)
	r.recompute = true
	r.run(t)
	r.recompute = false
	w.sweep(t, r.at.Add(30*aDay), nil, r)
	other := w.days(t)
	other.states, other.stage.Dataset = "other-states", "other"
	if p := other.plan(t); len(p.Work) != 0 {
		t.Error("what is in use is not found any more by who asks for the same")
	}
	w.put(t, "aaa", nil)
	r.at = r.at.Add(30 * aDay)
	r.run(t)
	w.sweep(t, r.at.Add(30*aDay), nil, r)
	if left := w.records(t); left != 0 {
		t.Errorf("%d results are left that nobody has", left)
	}
}

// TestSweepCrash: whichever write of a sweep fails, what outputs are made of is
// there, everything is whole, and the next sweep ends as if nothing had been.
func TestSweepCrash(t *testing.T) {
	tried := 0
	for _, fault := range faulty.Faults() {
		for at := 1; ; at++ {
			bytes := &backend.Memory{}
			w := openWorld(t, bytes)
			r := w.days(t)
			w.put(t, "aaa", map[string]string{"x": "1", "y": "2"})
			r.run(t)
			w.put(t, "aaa", map[string]string{"x": "1"})
			_, out := r.run(t)
			later := r.at.Add(30 * aDay)

			script := &faulty.Script{At: at, Fault: fault}
			mortal := openWorld(t, &faulty.Backend{Inner: bytes, Script: script})
			results := mortal.store.Dataset(&faultyHeads{Heads: r.heads[r.dataset("results")], script: script})
			_, err := mortal.sweepWith(t, results, later, nil, r)
			if script.Writes() < at {
				if err != nil {
					t.Fatalf("without a fault: %v", err)
				}
				break
			}
			tried++
			w.sound(t)
			if left := w.records(t); left != 1 && left != 2 {
				t.Errorf("%d results are left", left)
			}
			w.sweep(t, later, nil, r)
			if p := r.plan(t); !p.Nothing() || w.records(t) != 1 || w.head(t, r.stage.Dataset).ID != out.ID {
				t.Errorf("the next sweep leaves %d results, and the plan computes %v", w.records(t), names(p.Work))
			}
			w.sound(t)
			if t.Failed() {
				t.Fatalf("after write %d, %s (%v)", at, fault, err)
			}
		}
	}
	if tried < 4*5 {
		t.Errorf("only %d writes were tried", tried)
	}
}
