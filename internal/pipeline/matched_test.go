package pipeline

import (
	"testing"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data/digest"
)

// TestMatchCounts: programs get the value of a join or a group. The same files with another value
// are another datum, and files of no join or group have the key that they had.
func TestMatchCounts(t *testing.T) {
	w := newWorld(t)
	w.put(t, "aaa", map[string]string{"x-y.txt": "a"})
	only := func(in v1alpha1.Input) Datum {
		t.Helper()
		s := stage(t, input(in))
		of := &runner{world: w, stage: s}
		all, err := (&Request{Stage: s, Trees: w.store.Trees(), Inputs: of.inputs(t)}).all(t.Context())
		if err != nil || len(all) != 1 {
			t.Fatalf("%d datums: %v", len(all), err)
		}
		return all[0]
	}
	seen := map[digest.ID]string{}
	for name, in := range map[string]v1alpha1.Input{
		"alone":          {InputSource: source("aaa", "/*")},
		"grouped by x":   {Group: []v1alpha1.InputPart{grouped("aaa", "/(*)-(*).txt", "$1")}},
		"grouped by y":   {Group: []v1alpha1.InputPart{grouped("aaa", "/(*)-(*).txt", "$2")}},
		"joined on y":    {Join: []v1alpha1.InputPart{joined("aaa", "/(*)-(*).txt", "$2", true)}},
		"joined on both": {Join: []v1alpha1.InputPart{joined("aaa", "/(*)-(*).txt", "$1$2", true)}},
	} {
		d := only(in)
		if other := seen[d.Files]; other != "" {
			t.Errorf("%s and %s are one datum", name, other)
		}
		seen[d.Files] = name
	}
	other := joined("aaa", "/*-(*).txt", "$1", true)
	other.Name = "other"
	both := only(v1alpha1.Input{Cross: []v1alpha1.InputPart{
		{Group: []v1alpha1.InputLeaf{{InputSource: grouped("aaa", "/(*)-*.txt", "$1").InputSource}}},
		{Join: []v1alpha1.InputLeaf{{InputSource: other.InputSource}}},
	}})
	if g := both.Given; g[0].GroupBy != "x" || g[0].JoinOn != "" || g[1].GroupBy != "" || g[1].JoinOn != "y" {
		t.Errorf("a cross of a group and a join is told %+v", g)
	}
}
