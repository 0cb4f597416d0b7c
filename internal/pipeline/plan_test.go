package pipeline

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// shapes are inputs of every kind, over datasets aaa and bbb and ccc.
var shapes = []struct {
	name  string
	input v1alpha1.Input
}{
	{"everything", v1alpha1.Input{InputSource: source("aaa", "/")}},
	{"top", v1alpha1.Input{InputSource: source("aaa", "/*")}},
	{"folders at the top", v1alpha1.Input{InputSource: source("aaa", "/*/")}},
	{"second level", v1alpha1.Input{InputSource: source("aaa", "/*/*")}},
	{"deep", v1alpha1.Input{InputSource: source("aaa", "/**.txt")}},
	{"below a folder", v1alpha1.Input{InputSource: source("aaa", "/d1/*")}},
	{"cross", v1alpha1.Input{Cross: []v1alpha1.InputPart{part("aaa", "/*"), part("bbb", "/d0/*")}}},
	{"cross of all", v1alpha1.Input{Cross: []v1alpha1.InputPart{part("aaa", "/*"), part("bbb", "/"), part("ccc", "/*/")}}},
	{"join", v1alpha1.Input{Join: []v1alpha1.InputPart{joined("aaa", "/(*)/(*).txt", "$2", false), joined("bbb", "/*/(*).txt", "$1", false)}}},
	{"join of folders", v1alpha1.Input{Join: []v1alpha1.InputPart{joined("aaa", "/(*)", "$1", false), joined("bbb", "/(*)/*", "$1", false)}}},
	{"outer join", v1alpha1.Input{Join: []v1alpha1.InputPart{joined("aaa", "/(*)/(*)", "$1-$2", true), joined("bbb", "/(*)/(*)", "$1-$2", false), joined("ccc", "/(*)/(*)", "$1-$2", true)}}},
	{"group", v1alpha1.Input{Group: []v1alpha1.InputPart{grouped("aaa", "/(*)/*", "$1"), grouped("bbb", "/*/(*)*", "d$1")}}},
	{"union", v1alpha1.Input{Union: []v1alpha1.InputPart{part("aaa", "/*"), part("bbb", "/**")}}},
	{"cross of a union and a join", v1alpha1.Input{Cross: []v1alpha1.InputPart{
		{Union: []v1alpha1.InputLeaf{leaf("aaa", "/*/f1*"), leaf("bbb", "/*/f1*")}},
		{Join: []v1alpha1.InputLeaf{
			{InputSource: v1alpha1.InputSource{Name: "x", Dataset: "ccc", Glob: "/(*)", JoinOn: "$1"}},
			{InputSource: v1alpha1.InputSource{Name: "y", Dataset: "aaa", Glob: "/(*)", JoinOn: "$1"}},
		}},
	}}},
	{"union of one name", v1alpha1.Input{Union: []v1alpha1.InputPart{called("in", "aaa", "/*"), called("in", "bbb", "/*"), called("other", "ccc", "/*/*")}}},
	{"union of crosses", v1alpha1.Input{Union: []v1alpha1.InputPart{
		{Cross: []v1alpha1.InputLeaf{leaf("aaa", "/d0/*"), leaf("bbb", "/*")}}, {Group: []v1alpha1.InputLeaf{{InputSource: v1alpha1.InputSource{Dataset: "ccc", Glob: "/(*)/*", GroupBy: "$1"}}}},
	}}},
}

func called(name, dataset, glob string) v1alpha1.InputPart {
	p := part(dataset, glob)
	p.Name = name
	return p
}

// TestIncrementalIsNaive: whatever changes, a plan from the last run has the datums
// and the output of one that is made from nothing, and computes nothing twice.
func TestIncrementalIsNaive(t *testing.T) {
	for _, shape := range shapes {
		t.Run(shape.name, func(t *testing.T) {
			t.Parallel()
			incremental(t, shape.input, "", lucky)
		})
		t.Run(shape.name+", some of which fail", func(t *testing.T) {
			t.Parallel()
			incremental(t, shape.input, v1alpha1.FailCollect, unlucky)
		})
	}
}

// unlucky has datums fail that are given a certain content, and others make a file
// for each that they are given.
func unlucky(d *Datum, given map[string]string) map[string]string {
	made := map[string]string{}
	for path, content := range given {
		if content == "content 3" {
			return nil
		}
		made[d.Files.Short()+"/"+path] = content
	}
	return made
}

// lucky makes one file. Its path says what the datum is given: its name is nothing
// that a program could know.
func lucky(d *Datum, given map[string]string) map[string]string {
	for _, content := range listing(d, given) {
		return map[string]string{"made/" + d.Files.Short(): content}
	}
	return nil
}

func incremental(t *testing.T, in v1alpha1.Input, policy v1alpha1.FailurePolicy, compute func(*Datum, map[string]string) map[string]string) {
	r := rand.New(rand.NewPCG(7, uint64(len(t.Name()))))
	w := newWorld(t)
	s := input(in)
	s.OnFailure = policy
	a, b := w.runner(t, s), w.runner(t, s)
	a.compute, b.compute = compute, compute
	b.stage.Dataset = "other"
	held := map[string]map[string]string{"aaa": {}, "bbb": {}, "ccc": {}}
	for round := range 12 {
		for _, name := range []string{"aaa", "bbb", "ccc"} {
			if r.IntN(3) > 0 || round == 0 {
				mutate(r, held[name], round)
				w.put(t, name, held[name])
			}
		}
		p, out := a.run(t)
		if p.Whole != (round == 0) {
			t.Fatalf("round %d: whole %v, %s", round, p.Whole, p.Why)
		}
		failed := ProvenanceOf(&out).Failed
		naive := b.planFrom(t, nil)
		if int64(len(naive.Work)) != failed {
			t.Fatalf("round %d: the naive plan would compute %v, %d failed", round, names(naive.Work), failed)
		}
		if p.Total != naive.Total || int(p.Total) != len(naive.Reused)+len(naive.Work) {
			t.Fatalf("round %d: %d datums, naively %d", round, p.Total, naive.Total)
		}
		fresh := b.finish(t, naive)
		if d := cmp.Diff(w.state(t, fresh), w.state(t, out)); d != "" {
			t.Fatalf("round %d: state (-naive +incremental)\n%s", round, d)
		}
		if fresh.Tree.ID != out.Tree.ID {
			t.Fatalf("round %d: output (-naive +incremental)\n%s", round, cmp.Diff(w.contents(t, fresh), w.contents(t, out)))
		}
		again := a.plan(t)
		if again.Total != p.Total || int64(len(again.Work)) != failed || failed == 0 && !again.Nothing() {
			t.Fatalf("round %d: planned again: %d datums, %v", round, again.Total, names(again.Work))
		}
	}
}

// mutate changes some files.
func mutate(r *rand.Rand, files map[string]string, round int) {
	for range 1 + r.IntN(4+20/(1+round)) {
		path := fmt.Sprintf("d%d/f%d.%s", r.IntN(4), r.IntN(6), []string{"txt", "png"}[r.IntN(2)])
		switch r.IntN(6) {
		case 0:
			path = fmt.Sprintf("top%d.txt", r.IntN(3))
		case 1:
			path = fmt.Sprintf("d%d/e%d/f%d.txt", r.IntN(4), r.IntN(2), r.IntN(3))
		}
		if r.IntN(3) == 0 {
			all := slices.Sorted(maps.Keys(files))
			if len(all) > 0 {
				delete(files, all[r.IntN(len(all))])
				continue
			}
		}
		files[path] = fmt.Sprint("content ", r.IntN(5))
	}
}
