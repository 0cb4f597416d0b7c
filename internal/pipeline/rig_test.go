package pipeline

import (
	"archive/tar"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/ref"
)

// world is a store with datasets in memory.
type world struct {
	store    *data.Store
	datasets map[string]*data.Dataset
	heads    map[*data.Dataset]ref.Heads
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return openWorld(t, &backend.Memory{})
}

// openWorld opens a store as another process would.
func openWorld(t testing.TB, bytes backend.Backend) *world {
	t.Helper()
	s, err := data.Open(t.Context(), data.Options{Backend: bytes, Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &world{store: s, datasets: map[string]*data.Dataset{}, heads: map[*data.Dataset]ref.Heads{}}
}

func (w *world) dataset(name string) *data.Dataset {
	if w.datasets[name] == nil {
		heads := &ref.Memory{}
		w.datasets[name] = w.store.Dataset(heads)
		w.heads[w.datasets[name]] = heads
	}
	return w.datasets[name]
}

// archive is files as a tar.
func archive(t testing.TB, files map[string]string) io.Reader {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		content := files[name]
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

// put makes a dataset's branch main hold these files and nothing else.
func (w *world) put(t testing.TB, name string, files map[string]string) commit.Commit {
	t.Helper()
	s, err := w.dataset(name).Begin(t.Context(), "main", data.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Remove(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if err := s.Add(t.Context(), data.Tar(archive(t, files)), data.AddOptions{}); err != nil {
		t.Fatal(err)
	}
	r, err := s.Commit(t.Context(), data.CommitOptions{AllowEmpty: true})
	if err != nil {
		t.Fatal(err)
	}
	return r.Commit
}

// add adds files to a dataset's branch main.
func (w *world) add(t testing.TB, name string, files map[string]string, o data.CommitOptions) commit.Commit {
	t.Helper()
	r, err := w.dataset(name).Put(t.Context(), "main", data.Tar(archive(t, files)), data.PutOptions{CommitOptions: o})
	if err != nil {
		t.Fatal(err)
	}
	return r.Commit
}

// contents are what a commit holds, path -> content.
func (w *world) contents(t testing.TB, c commit.Commit) map[string]string {
	t.Helper()
	held := map[string]string{}
	if c.ID.IsZero() {
		return held
	}
	v, err := w.dataset("any").At(t.Context(), c.ID.String())
	if err != nil {
		t.Fatal(err)
	}
	err = v.Walk(t.Context(), "", func(e data.Entry) error {
		f, err := v.Open(t.Context(), e.Path)
		if err != nil {
			return err
		}
		content, err := io.ReadAll(f)
		held[e.Path] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return held
}

func (w *world) head(t testing.TB, name string) commit.Commit {
	t.Helper()
	c, err := w.dataset(name).Resolve(t.Context(), "main")
	if ignoreMissing(err) != nil {
		t.Fatal(err)
	}
	return c
}

// stage parses a pipeline p of one stage s.
func stage(t testing.TB, s v1alpha1.Stage) *Stage {
	t.Helper()
	s.Name = "s"
	if s.Command == nil {
		s.Command = []string{"true"}
	}
	g, err := Parse("p", &v1alpha1.PipelineSpec{Stages: []v1alpha1.Stage{s}})
	if err != nil {
		t.Fatal(err)
	}
	return g.Stages[0]
}

func recipeOf(t testing.TB, s *Stage, r Resolved) *Recipe {
	t.Helper()
	recipe, err := NewRecipe(s, r)
	if err != nil {
		t.Fatal(err)
	}
	return recipe
}

// runner runs a stage again and again, as a controller would.
type runner struct {
	*world
	stage  *Stage
	recipe *Recipe
	// compute is what a datum makes, path -> content; nil says that it fails.
	compute func(d *Datum, given map[string]string) map[string]string
	// recompute asks for everything anew.
	recompute bool
	// blind says that compute needs no files.
	blind bool
	runs  int
	// at is the time, if it matters.
	at time.Time
	// states is the dataset of states. Default: states.
	states   string
	computed []string
}

func (w *world) runner(t testing.TB, s v1alpha1.Stage) *runner {
	t.Helper()
	r := &runner{world: w, stage: stage(t, s), compute: listing}
	r.recipe = recipeOf(t, r.stage, Resolved{})
	return r
}

// listing makes one file with everything that is given.
func listing(d *Datum, given map[string]string) map[string]string {
	var b strings.Builder
	for _, path := range slices.Sorted(maps.Keys(given)) {
		fmt.Fprintf(&b, "%s=%s\n", path, given[path])
	}
	return map[string]string{"made/" + strings.ReplaceAll(d.Name, "/", "_"): b.String()}
}

func (r *runner) books() Books {
	return Books{Output: r.dataset(r.stage.Dataset), States: r.dataset(cmp.Or(r.states, "states")), Results: r.dataset("results"), ResultsBranch: "main", At: r.at}
}

func (r *runner) inputs(t testing.TB) []commit.Commit {
	t.Helper()
	var in []commit.Commit
	for _, s := range r.stage.Sources {
		in = append(in, r.head(t, s.Dataset))
	}
	return in
}

// plan plans the next run.
func (r *runner) plan(t testing.TB) *Plan {
	t.Helper()
	r.runs++
	previous, err := Previous(t.Context(), r.dataset(r.stage.Dataset), r.stage.Branch, r.dataset(cmp.Or(r.states, "states")))
	if err != nil {
		t.Fatal(err)
	}
	return r.planFrom(t, previous)
}

func (r *runner) planFrom(t testing.TB, previous *State) *Plan {
	t.Helper()
	p, err := Make(t.Context(), Request{
		Stage: r.stage, Recipe: r.recipe, Trees: r.store.Trees(), Inputs: r.inputs(t), Previous: previous,
		Results: r.head(t, "results").Tree, Run: fmt.Sprint("run-", r.runs), Recompute: r.recompute,
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// files are what a datum is given, <input>/<path> -> content.
func (r *runner) files(t testing.TB, d *Datum, in []commit.Commit, cache map[digest.ID]map[string]string) map[string]string {
	t.Helper()
	given := map[string]string{}
	if r.blind {
		return given
	}
	for i := range d.Given {
		g := &d.Given[i]
		c := in[g.Source]
		if cache[c.ID] == nil {
			cache[c.ID] = r.contents(t, c)
		}
		for path, content := range cache[c.ID] {
			if g.has(path) {
				given[g.Input+"/"+path] = content
			}
		}
	}
	return given
}

// run plans, computes and finishes.
func (r *runner) run(t testing.TB) (*Plan, commit.Commit) {
	t.Helper()
	p := r.plan(t)
	return p, r.finish(t, p)
}

func (r *runner) finish(t testing.TB, p *Plan) commit.Commit {
	t.Helper()
	r.computed = nil
	failed := map[string]bool{}
	recorded := map[string]string{}
	cache := map[digest.ID]map[string]string{}
	for i := range p.Work {
		task := &p.Work[i]
		r.computed = append(r.computed, task.Name)
		made := r.compute(&task.Datum, r.files(t, &task.Datum, p.request.Inputs, cache))
		folder := ResultPath(task.Key)
		if made == nil {
			failed[task.Name] = true
			folder = FailedPath(task.Key)
		}
		record, err := (&Record{Key: task.Key, Recipe: r.recipe.ID, Files: task.Files, Datum: task.Name, Seconds: 2, Stage: "s"}).Encode()
		if err != nil {
			t.Fatal(err)
		}
		recorded[folder+"/"+RecordFile] = string(record)
		recorded[folder+"/"+LogFile] = "log of " + task.Name
		for path, content := range made {
			recorded[folder+"/"+OutFolder+"/"+path] = content
		}
	}
	text, err := r.recipe.Encode()
	if err != nil {
		t.Fatal(err)
	}
	recorded[RecipePath(r.recipe.ID)] = string(text)
	r.add(t, "results", recorded, data.CommitOptions{Orphan: true})
	out, err := p.Finish(t.Context(), "p", r.books(), failed, data.CommitOptions{Message: "run"})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// names are those of tasks.
func names(tasks []Task) []string {
	var all []string
	for i := range tasks {
		all = append(all, tasks[i].Name)
	}
	return all
}

// state is what a commit's state has of each datum.
func (w *world) state(t testing.TB, c commit.Commit) map[string]string {
	t.Helper()
	says := ProvenanceOf(&c)
	if says == nil {
		t.Fatalf("commit %s says nothing: %s", c.ID.Short(), c.Provenance)
	}
	s, err := StateOf(t.Context(), w.dataset("states"), says.State)
	if err != nil || s == nil {
		t.Fatal(s, err)
	}
	all := map[string]string{}
	for e, err := range w.store.Trees().From(t.Context(), s.Datums, "") {
		if err != nil {
			t.Fatal(err)
		}
		all[e.Path] = e.Target
	}
	return all
}

func source(dataset, glob string) v1alpha1.InputSource {
	return v1alpha1.InputSource{Dataset: dataset, Glob: glob}
}

func joined(dataset, glob, on string, outer bool) v1alpha1.InputPart {
	s := source(dataset, glob)
	s.JoinOn, s.OuterJoin = on, outer
	return v1alpha1.InputPart{InputSource: s}
}

func grouped(dataset, glob, by string) v1alpha1.InputPart {
	s := source(dataset, glob)
	s.GroupBy = by
	return v1alpha1.InputPart{InputSource: s}
}

func part(dataset, glob string) v1alpha1.InputPart {
	return v1alpha1.InputPart{InputSource: source(dataset, glob)}
}

func leaf(dataset, glob string) v1alpha1.InputLeaf {
	return v1alpha1.InputLeaf{InputSource: source(dataset, glob)}
}

func input(i v1alpha1.Input) v1alpha1.Stage { return v1alpha1.Stage{Input: i} }
