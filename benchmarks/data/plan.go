package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/ref"
	"github.com/muster-dev/muster/internal/pipeline"
)

// plans: runs of a pipeline of four stages in a row, each with very many datums,
// planned after one file changed.
func (b *bench) plans(ctx context.Context) error {
	n := int(1_000_000 * b.scale)
	if _, err := step(ctx, "make", b.path("store"), strconv.Itoa(n)); err != nil {
		return err
	}
	for stage := range 4 {
		made, err := step(ctx, "run", b.path("store"), strconv.Itoa(stage))
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "stage %d: %d datums planned from nothing in %.1f s; with results and output %d MB of memory\n", stage, made.Files, made.Seconds, made.Memory/mi)
	}
	for _, c := range []struct {
		what, path string
		stages     string
		work       int64
		most       float64
	}{
		{"1 changed that matches no glob", "notes.txt", "0", 0, 0.3},
		{"a no-op of 4 stages: what changed matches no glob", "notes.txt", "0123", 0, 0.1},
		{"1 changed", name(n / 3), "0", 1, 0.3},
	} {
		if _, err := step(ctx, "touch", b.path("store"), c.path, "touched "+c.what); err != nil {
			return err
		}
		m, _, err := b.pair(ctx, b.quiet("store"), func() (measured, error) { return step(ctx, "plan", b.path("store"), c.stages) }, nil)
		if err != nil {
			return err
		}
		b.say(fmt.Sprintf("plan a run, %d datums, %s", n, c.what), fmt.Sprintf("%.1f ms, %d object reads, %d MB of memory", m.Seconds*1000, m.Reads, m.Memory/mi), "-",
			fmt.Sprintf("<= %.0f ms", c.most*1000), m.Seconds <= c.most && m.Work == c.work && m.Files == int64(n*len(c.stages)))
	}
	return os.RemoveAll(b.path("store"))
}

// chain is the pipeline.
type chain struct {
	store  *data.Store
	folder string
	in     *data.Dataset
	which  string
}

func newPipeline(store *data.Store, in *data.Dataset, args []string) *chain {
	return &chain{store: store, folder: args[0], in: in, which: args[1]}
}

func (c *chain) dataset(name string) (*data.Dataset, error) {
	if name == "input" {
		return c.in, nil
	}
	heads, err := ref.OpenFolder(filepath.Join(c.folder, "heads-"+name))
	if err != nil {
		return nil, err
	}
	return c.store.Dataset(heads), nil
}

func (c *chain) graph() (*pipeline.Graph, error) {
	spec := &v1alpha1.PipelineSpec{}
	for i := range 4 {
		// All know their input by one name and copy it, so that one has the results of
		// all.
		in := v1alpha1.InputSource{Name: "in", Dataset: "input", Glob: "/*/*.json"}
		if i > 0 {
			in.Dataset, in.Stage = "", fmt.Sprint("s", i-1)
		}
		spec.Stages = append(spec.Stages, v1alpha1.Stage{Name: fmt.Sprint("s", i), Input: v1alpha1.Input{InputSource: in}, Command: []string{"true"}})
	}
	return pipeline.Parse("bench", spec)
}

// begin plans a run of a stage.
func (c *chain) begin(ctx context.Context, s *pipeline.Stage) (*pipeline.Plan, error) {
	output, err := c.dataset(s.Dataset)
	if err != nil {
		return nil, err
	}
	states, err := c.dataset("states")
	if err != nil {
		return nil, err
	}
	r := pipeline.Request{Stage: s, Trees: c.store.Trees()}
	if r.Recipe, err = pipeline.NewRecipe(s, pipeline.Resolved{Code: pipeline.Fingerprint{ID: "1"}}); err != nil {
		return nil, err
	}
	if r.Previous, err = pipeline.Previous(ctx, output, s.Branch, states); err != nil {
		return nil, err
	}
	in, err := c.head(ctx, s.Sources[0].Dataset)
	if err != nil {
		return nil, err
	}
	r.Inputs = []commit.Commit{in}
	results, err := c.dataset("results")
	if err != nil {
		return nil, err
	}
	if made, err := results.Resolve(ctx, "main"); err == nil {
		r.Results = made.Tree
	}
	return pipeline.Make(ctx, r)
}

func (c *chain) head(ctx context.Context, name string) (commit.Commit, error) {
	d, err := c.dataset(name)
	if err != nil {
		return commit.Commit{}, err
	}
	return d.Resolve(ctx, "main")
}

// plan plans stages.
func (c *chain) plan(ctx context.Context) (m measured, err error) {
	g, err := c.graph()
	if err != nil {
		return m, err
	}
	for _, digit := range c.which {
		p, err := c.begin(ctx, g.Stages[digit-'0'])
		if err != nil {
			return m, err
		}
		if p.Whole {
			return m, fmt.Errorf("everything was looked at: %s", p.Why)
		}
		m.Files += p.Total
		m.Work += int64(len(p.Work))
	}
	return m, nil
}

// run runs one stage: each datum makes a copy of its file.
func (c *chain) run(ctx context.Context) (m measured, err error) {
	g, err := c.graph()
	if err != nil {
		return m, err
	}
	s := g.Stage("s" + c.which)
	p, err := c.begin(ctx, s)
	if err != nil {
		return m, err
	}
	m.Files = p.Total
	if err := c.record(ctx, s, p); err != nil {
		return m, err
	}
	books := pipeline.Books{ResultsBranch: "main"}
	for name, to := range map[string]**data.Dataset{s.Dataset: &books.Output, "states": &books.States, "results": &books.Results} {
		if *to, err = c.dataset(name); err != nil {
			return m, err
		}
	}
	_, err = p.Finish(ctx, "bench", books, nil, data.CommitOptions{})
	return m, err
}

// record records a result for each datum of a plan's work.
func (c *chain) record(ctx context.Context, stage *pipeline.Stage, p *pipeline.Plan) error {
	if len(p.Work) == 0 {
		return nil
	}
	results, err := c.dataset("results")
	if err != nil {
		return err
	}
	in, err := c.head(ctx, stage.Sources[0].Dataset)
	if err != nil {
		return err
	}
	s, err := results.Begin(ctx, "main", data.SessionOptions{})
	if err != nil {
		return err
	}
	if err := s.Take(ctx, in.ID); err != nil {
		return err
	}
	if err := s.Add(ctx, data.Stream("record", strings.NewReader(`{"exit": 0, "seconds": 1}`)), data.AddOptions{}); err != nil {
		return err
	}
	root, err := s.Root(ctx)
	if err != nil {
		return err
	}
	record, err := s.Trees().Get(ctx, root, "record")
	if err != nil {
		return err
	}
	made := map[string]digest.ID{}
	for i := range p.Work {
		made[p.Work[i].Given[0].Path] = p.Work[i].Key
	}
	for e, err := range c.store.Trees().From(ctx, in.Tree, "") {
		if err != nil {
			return err
		}
		key, ok := made[e.Path]
		if !ok {
			continue
		}
		folder := pipeline.ResultPath(key)
		if err := s.Set(ctx, folder+"/"+pipeline.RecordFile, &record); err != nil {
			return err
		}
		if err := s.Set(ctx, folder+"/"+pipeline.OutFolder+"/"+e.Path, e); err != nil {
			return err
		}
	}
	_, err = s.Commit(ctx, data.CommitOptions{Orphan: true})
	return err
}
