package pipeline

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/tree"
	"github.com/muster-dev/muster/internal/foreman"
	"github.com/muster-dev/muster/internal/foreman/shift"
	"github.com/muster-dev/muster/internal/osfile"
	"github.com/muster-dev/muster/internal/pipeline"
	"github.com/muster-dev/muster/internal/pipeline/facts"
	"github.com/muster-dev/muster/internal/pipeline/harvest"
)

// ResultsDataset is the dataset, in each namespace, of the results of all its
// pipelines.
const ResultsDataset = pipeline.ResultsDataset

// resultsBranch is its branch.
const resultsBranch = pipeline.ResultsBranch

// record makes results durable: all of them by one commit of the dataset of
// results. What is acknowledged is on disk.
func (w *work) record(ctx context.Context, results []foreman.Result) error {
	d, err := w.machine.dataset(ctx, w.server, w.namespace, ResultsDataset)
	if err != nil {
		return fmt.Errorf("recording results: %w", err)
	}
	session, err := d.Begin(ctx, resultsBranch, data.SessionOptions{})
	if err != nil {
		return fmt.Errorf("recording results: %w", err)
	}
	err = session.AddTar(ctx, data.AddOptions{}, func(to io.Writer) error { return w.write(to, results) })
	if err == nil {
		// Results have no history: each commit holds all of them.
		_, err = session.Commit(ctx, data.CommitOptions{Author: "muster", Message: fmt.Sprintf("%d results of %s", len(results), w.spec.Name), Orphan: true})
	}
	if err != nil {
		return fmt.Errorf("recording results: %w", errors.Join(err, session.Close(context.WithoutCancel(ctx))))
	}
	return nil
}

// write writes results as a tar of where they lie among all results.
func (w *work) write(to io.Writer, results []foreman.Result) error {
	out := tar.NewWriter(to)
	recipe, err := w.resolved.recipe.Encode()
	if err != nil {
		return err
	}
	if err := harvest.Text(out, pipeline.RecipePath(w.resolved.recipe.ID), recipe); err != nil {
		return err
	}
	for i := range results {
		task, ok := w.tasks[results[i].Datum.ID]
		if !ok {
			return fmt.Errorf("datum %s is not part of the work", results[i].Name)
		}
		if err := w.link(out, &task, &results[i]); err != nil {
			return fmt.Errorf("datum %s: %w", results[i].Name, err)
		}
		// So that it goes one day, also if the run never ends.
		if err := harvest.Text(out, pipeline.UsedPath(w.now(), task.Key), nil); err != nil {
			return fmt.Errorf("datum %s: %w", results[i].Name, err)
		}
		if err := w.writeOne(out, &task, task.Key, &results[i]); err != nil {
			return fmt.Errorf("datum %s: %w", results[i].Name, err)
		}
	}
	return out.Close()
}

// link notes which result a datum of this run has, for those who ask by names.
func (w *work) link(out *tar.Writer, task *pipeline.Task, r *foreman.Result) error {
	at := pipeline.ResultPath(task.Key)
	if r.Failed() {
		at = pipeline.FailedPath(task.Key)
	}
	name := pipeline.DatumPath(w.run.Name, w.stage.Name, task.Name)
	if !askable(name) {
		return nil
	}
	return out.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: strings.Repeat("../", strings.Count(name, "/")) + at})
}

// askable says that a path is not too long for a tree: a datum whose name is cannot
// be asked for by it.
func askable(name string) bool { return tree.CheckPath(name) == nil }

func (w *work) writeOne(out *tar.Writer, task *pipeline.Task, key digest.ID, r *foreman.Result) error {
	at := pipeline.ResultPath(key)
	if r.Failed() {
		at = pipeline.FailedPath(key)
	}
	record := pipeline.Record{
		Key: key, Recipe: w.resolved.recipe.ID, Files: task.Files, Datum: task.Name,
		Pipeline: w.run.Spec.Pipeline, Stage: w.stage.Name, Run: w.run.Name,
		Exit: r.Exit, Error: r.Error, Tries: r.Tries, Started: r.Started, Seconds: r.Took.Seconds(), Where: w.where,
	}
	if gpus := w.stage.Spec.GPUs; gpus != nil {
		record.GPUs = gpus.AsApproximateFloat64()
	}
	text, err := record.Encode()
	if err != nil {
		return err
	}
	if err := harvest.Text(out, at+"/"+pipeline.RecordFile, text); err != nil {
		return err
	}
	return harvest.Made(out, at, r)
}

// fetch writes the files of a datum below a folder: one for each input, with what
// was given where it is in its source.
func (w *work) fetch(ctx context.Context, d foreman.Datum, folder *os.Root) error {
	task, ok := w.tasks[d.ID]
	if !ok {
		return errors.New("it is not part of the work")
	}
	for _, name := range inputNames(w.stage) {
		if err := folder.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("making the folder of input %s: %w", name, err)
		}
	}
	for i := range task.Given {
		if err := w.fetchGiven(ctx, &task.Given[i], folder); err != nil {
			return err
		}
	}
	return nil
}

func (w *work) fetchGiven(ctx context.Context, g *pipeline.Given, folder *os.Root) error {
	if g.Files == 0 {
		return nil
	}
	view := w.views[g.Source]
	to, err := osfile.OpenFolder(folder, g.Input)
	if err != nil {
		return fmt.Errorf("opening the folder of input %s: %w", g.Input, err)
	}
	if g.Kind == tree.Folder {
		_, err = view.CheckoutIn(ctx, to, data.CheckoutOptions{Pattern: literal(g.Path)})
	} else {
		err = w.one(ctx, view, g.Path, to)
	}
	if err != nil {
		return fmt.Errorf("input %s: %w", g.Input, err)
	}
	return nil
}

// one writes one file of a commit below a folder, which it closes.
func (w *work) one(ctx context.Context, view *data.View, path string, to *os.Root) (err error) {
	defer func() { err = errors.Join(err, to.Close()) }()
	e, err := view.Stat(ctx, path)
	if err != nil {
		return err
	}
	return w.store.Extract(ctx, &e, to, path)
}

// facts returns the facts about a datum for its program.
func (w *work) facts(d foreman.Datum) shift.Facts {
	task := w.tasks[d.ID]
	return facts.Of(&task.Datum, w.inputs)
}

// literal is a path as a pattern that means just that: what is there and below.
func literal(path string) string {
	if !strings.ContainsAny(path, `*?[\`) {
		return path
	}
	quoted := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
	return quoted + "/**"
}
