package pipeline

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data/tree"
)

// listed are a stage's datums: name: what is given.
func listed(t *testing.T, w *world, s *Stage) []string {
	t.Helper()
	r := &runner{world: w, stage: s}
	datums, err := (&Request{Stage: s, Trees: w.store.Trees(), Inputs: r.inputs(t)}).all(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, d := range datums {
		var given []string
		for _, g := range d.Given {
			end := ""
			if g.Kind == tree.Folder {
				end = fmt.Sprintf("/ (%d)", g.Files)
			}
			given = append(given, g.Input+":/"+g.Path+end)
		}
		all = append(all, d.Name+": "+strings.Join(given, " "))
	}
	return all
}

func TestCombinations(t *testing.T) {
	w := newWorld(t)
	w.put(t, "aaa", map[string]string{"cat/1.png": "a", "cat/2.png": "b", "dog/1.png": "c", "top.txt": "d", "+x": "e"})
	w.put(t, "bbb", map[string]string{"cat.txt": "f", "cow.txt": "g"})
	w.put(t, "empty", nil)
	for _, c := range []struct {
		name  string
		input v1alpha1.Input
		want  []string
	}{
		{"everything", v1alpha1.Input{InputSource: source("aaa", "")}, []string{"all: aaa:// (5)"}},
		{"top", v1alpha1.Input{InputSource: source("aaa", "/*")}, []string{"^+x: aaa:/+x", "cat: aaa:/cat/ (2)", "dog: aaa:/dog/ (1)", "top.txt: aaa:/top.txt"}},
		{"folders", v1alpha1.Input{InputSource: source("aaa", "/*/")}, []string{"cat: aaa:/cat/ (2)", "dog: aaa:/dog/ (1)"}},
		{"deep", v1alpha1.Input{InputSource: source("aaa", "/**.png")}, []string{"cat/1.png: aaa:/cat/1.png", "cat/2.png: aaa:/cat/2.png", "dog/1.png: aaa:/dog/1.png"}},
		{"nothing matches", v1alpha1.Input{InputSource: source("aaa", "/*.jpg")}, nil},
		{"nothing there", v1alpha1.Input{InputSource: source("empty", "/")}, nil},
		{"no commit", v1alpha1.Input{InputSource: source("missing", "/")}, nil},
		{"cross", v1alpha1.Input{Cross: []v1alpha1.InputPart{part("aaa", "/*/"), part("bbb", "/*")}}, []string{
			"aaa/cat/+bbb/cat.txt: aaa:/cat/ (2) bbb:/cat.txt", "aaa/cat/+bbb/cow.txt: aaa:/cat/ (2) bbb:/cow.txt",
			"aaa/dog/+bbb/cat.txt: aaa:/dog/ (1) bbb:/cat.txt", "aaa/dog/+bbb/cow.txt: aaa:/dog/ (1) bbb:/cow.txt"}},
		{"cross with everything", v1alpha1.Input{Cross: []v1alpha1.InputPart{part("aaa", "/*/"), part("bbb", "/")}}, []string{
			"aaa/cat/+bbb: aaa:/cat/ (2) bbb:// (2)", "aaa/dog/+bbb: aaa:/dog/ (1) bbb:// (2)"}},
		{"cross with nothing", v1alpha1.Input{Cross: []v1alpha1.InputPart{part("aaa", "/*/"), part("empty", "/")}}, nil},
		{"join", v1alpha1.Input{Join: []v1alpha1.InputPart{joined("aaa", "/(*)/*", "$1", false), joined("bbb", "/(*).txt", "$1", false)}}, []string{
			"aaa/cat/1.png/+bbb/cat.txt: aaa:/cat/1.png bbb:/cat.txt", "aaa/cat/2.png/+bbb/cat.txt: aaa:/cat/2.png bbb:/cat.txt"}},
		{"outer join", v1alpha1.Input{Join: []v1alpha1.InputPart{joined("aaa", "/(*)/", "$1", true), joined("bbb", "/(*).txt", "$1", true)}}, []string{
			"aaa/cat/+bbb/cat.txt: aaa:/cat/ (2) bbb:/cat.txt", "aaa/dog: aaa:/dog/ (1)", "bbb/cow.txt: bbb:/cow.txt"}},
		{"outer join of one side", v1alpha1.Input{Join: []v1alpha1.InputPart{joined("aaa", "/(*)/", "$1", false), joined("bbb", "/(*).txt", "$1", true)}}, []string{
			"aaa/cat/+bbb/cat.txt: aaa:/cat/ (2) bbb:/cat.txt", "bbb/cow.txt: bbb:/cow.txt"}},
		{"group", v1alpha1.Input{Group: []v1alpha1.InputPart{grouped("aaa", "/*/(*).png", "$1"), grouped("bbb", "/(c)*.txt", "$1")}}, []string{
			"=1: aaa:/cat/1.png aaa:/dog/1.png", "=2: aaa:/cat/2.png", "=c: bbb:/cat.txt bbb:/cow.txt"}},
		{"group by a folder", v1alpha1.Input{Group: []v1alpha1.InputPart{grouped("aaa", "/(*/)*", "$1")}}, []string{
			"=cat%2f: aaa:/cat/1.png aaa:/cat/2.png", "=dog%2f: aaa:/dog/1.png"}},
		{"union", v1alpha1.Input{Union: []v1alpha1.InputPart{part("aaa", "/*/"), part("bbb", "/")}}, []string{
			"0/aaa/cat: aaa:/cat/ (2)", "0/aaa/dog: aaa:/dog/ (1)", "1/bbb: bbb:// (2)"}},
		{"cross of a union", v1alpha1.Input{Cross: []v1alpha1.InputPart{{Union: []v1alpha1.InputLeaf{leaf("bbb", "/cat*"), leaf("aaa", "/dog")}}, {InputSource: v1alpha1.InputSource{Name: "top", Dataset: "aaa", Glob: "/*.txt"}}}}, []string{
			"0/bbb/cat.txt/+top/top.txt: bbb:/cat.txt top:/top.txt", "1/aaa/dog/+top/top.txt: aaa:/dog/ (1) top:/top.txt"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.want, listed(t, w, stage(t, input(c.input)))); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestLongNames: names that trees cannot have are hashes, and stay different.
func TestLongNames(t *testing.T) {
	w := newWorld(t)
	long := strings.Repeat("x", 250)
	files := map[string]string{}
	for _, end := range []string{"a", "b"} {
		path := strings.Repeat(long+"/", 10) + end
		files[path] = end
		files[strings.Repeat("+", 255)+"/"+end] = end
	}
	w.put(t, "aaa", files)
	w.put(t, "bbb", files)
	r := w.runner(t, input(v1alpha1.Input{Cross: []v1alpha1.InputPart{part("aaa", "/**"), part("bbb", "/**")}}))
	r.compute = func(d *Datum, _ map[string]string) map[string]string {
		return map[string]string{d.Files.String(): d.Name}
	}
	p, out := r.run(t)
	if p.Total != 16 || out.Tree.Files != 16 {
		t.Errorf("%d datums, %d files", p.Total, out.Tree.Files)
	}
	for _, task := range p.Work {
		if !strings.HasPrefix(task.Name, markHash) {
			t.Errorf("%q of %d bytes", task.Name[:40], len(task.Name))
		}
	}
	if again := r.plan(t); !again.Nothing() {
		t.Errorf("%v", names(again.Work))
	}
}
