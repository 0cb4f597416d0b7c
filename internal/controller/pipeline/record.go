package pipeline

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/tree"
	"github.com/muster-dev/muster/internal/data/worktree"
	"github.com/muster-dev/muster/internal/foreman"
	"github.com/muster-dev/muster/internal/foreman/shift"
	"github.com/muster-dev/muster/internal/osfile"
	"github.com/muster-dev/muster/internal/pipeline"
	"github.com/muster-dev/muster/internal/pipeline/facts"
)

// ResultsDataset is the dataset, in each namespace, of the results of all its
// pipelines.
const ResultsDataset = pipeline.ResultsDataset

// resultsBranch is its branch.
const resultsBranch = "main"

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
	if err := writeText(out, pipeline.RecipePath(w.resolved.recipe.ID), recipe); err != nil {
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
		if err := writeText(out, pipeline.UsedPath(w.now(), task.Key), nil); err != nil {
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
	if err := writeText(out, at+"/"+pipeline.RecordFile, text); err != nil {
		return err
	}
	return writeMade(out, at, r)
}

// writeMade writes the log of a datum and, unless the datum failed, its output. It returns a
// [foreman.SpoiledError] for an output that cannot be recorded.
func writeMade(out *tar.Writer, at string, r *foreman.Result) error {
	root, err := os.OpenRoot(r.Folder)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if err := writeLog(out, at+"/"+pipeline.LogFile, root); err != nil || r.Failed() {
		return err
	}
	made, err := osfile.OpenFolder(root, shift.OutFolder)
	if err != nil {
		return spoiled(r.Datum.ID, err)
	}
	defer func() { _ = made.Close() }()
	return spoiled(r.Datum.ID, writeFolder(out, at+"/"+pipeline.OutFolder, made))
}

// outputError reports a file of an output that no dataset can have.
type outputError struct{ error }

// Unwrap returns the cause.
func (e *outputError) Unwrap() error { return e.error }

// spoiled wraps an error about a file of an output as one that no other try changes. Errors of
// the reader of the tar stay as they are.
func spoiled(id string, err error) error {
	_, kind := errors.AsType[*osfile.KindError](err)
	_, output := errors.AsType[*outputError](err)
	if kind || output || errors.Is(err, osfile.ErrChanged) || errors.Is(err, fs.ErrNotExist) {
		return &foreman.SpoiledError{ID: id, Why: err}
	}
	return err
}

// writeLog writes the log of a datum, if there is one.
func writeLog(out *tar.Writer, name string, root *os.Root) error {
	info, err := root.Lstat(shift.LogFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular() || info.Size() == 0:
		return nil
	}
	return writeFile(out, name, root, shift.LogFile)
}

func writeText(out *tar.Writer, name string, text []byte) error {
	if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(text)), Mode: 0o644}); err != nil {
		return err
	}
	_, err := out.Write(text)
	return err
}

func writeFile(out *tar.Writer, at string, in *os.Root, name string) (err error) {
	file, err := osfile.OpenRegular(in, name)
	if err != nil {
		return fmt.Errorf("reading %s: %w", at, err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: at, Size: info.Size(), Mode: int64(info.Mode().Perm())}); err != nil {
		return err
	}
	// A log may still grow by what a program left behind.
	if _, err = io.CopyN(out, file, info.Size()); errors.Is(err, io.EOF) {
		err = fmt.Errorf("reading %s, which had %d bytes: %w", at, info.Size(), osfile.ErrChanged)
	}
	return err
}

// writeFolder writes everything below a folder; its files were looked at when the
// datum was done. Nothing outside of the folder is read, and nothing but files and links,
// also if programs that still run change the folder meanwhile.
func writeFolder(out *tar.Writer, at string, folder *os.Root) error {
	links := tree.Links{}
	err := osfile.Walk(folder, func(name string, in *os.Root, e fs.DirEntry) error {
		switch {
		case e.IsDir():
			return nil
		case worktree.Reserved(name):
			return &outputError{fmt.Errorf("the name of %s is reserved for files that a checkout is writing", name)}
		}
		full := path.Join(at, name)
		if err := tree.CheckPath(full); err != nil {
			return &outputError{err}
		}
		if e.Type()&fs.ModeSymlink == 0 {
			return writeFile(out, full, in, e.Name())
		}
		target, err := in.Readlink(e.Name())
		if err != nil {
			return err
		}
		if err := tree.CheckTarget(name, target); err != nil {
			return &outputError{err}
		}
		links[name] = target
		return out.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: full, Linkname: target})
	})
	if err != nil {
		return err
	}
	if err := links.Check(); err != nil {
		return &outputError{err}
	}
	return nil
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

// facts are what the program of a datum is told about it.
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
