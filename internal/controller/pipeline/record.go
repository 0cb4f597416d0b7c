package pipeline

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/tree"
	"github.com/muster-dev/muster/internal/foreman"
	"github.com/muster-dev/muster/internal/foreman/shift"
	"github.com/muster-dev/muster/internal/pipeline"
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
	root, err := os.OpenRoot(r.Folder)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if info, err := root.Lstat(shift.LogFile); err == nil && info.Mode().IsRegular() && info.Size() > 0 {
		if err := writeFile(out, at+"/"+pipeline.LogFile, root, shift.LogFile); err != nil {
			return err
		}
	}
	if r.Failed() {
		return nil
	}
	return writeFolder(out, at+"/"+pipeline.OutFolder, root, shift.OutFolder)
}

func writeText(out *tar.Writer, name string, text []byte) error {
	if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(text)), Mode: 0o644}); err != nil {
		return err
	}
	_, err := out.Write(text)
	return err
}

func writeFile(out *tar.Writer, name string, root *os.Root, path string) (err error) {
	// Programs may write where the log is, and put a link or a pipe there.
	file, err := root.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: info.Size(), Mode: int64(info.Mode().Perm())}); err != nil {
		return err
	}
	// A log may still grow by what a program left behind.
	_, err = io.CopyN(out, file, info.Size())
	return err
}

// writeFolder writes everything below a folder; its files were looked at when the
// datum was done. Nothing outside of root is read, whatever programs that are left change
// meanwhile.
func writeFolder(out *tar.Writer, name string, root *os.Root, folder string) error {
	return fs.WalkDir(root.FS(), folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		at := name + "/" + strings.TrimPrefix(strings.TrimPrefix(path, folder), "/")
		if e.Type()&fs.ModeSymlink == 0 {
			return writeFile(out, at, root, path)
		}
		target, err := root.Readlink(path)
		if err != nil {
			return err
		}
		return out.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: at, Linkname: target})
	})
}

// fetch writes the files of a datum below a folder: one for each input, with what
// was given where it is in its source.
func (w *work) fetch(ctx context.Context, d foreman.Datum, folder string) error {
	task, ok := w.tasks[d.ID]
	if !ok {
		return errors.New("it is not part of the work")
	}
	for _, name := range inputNames(w.stage) {
		if err := os.MkdirAll(filepath.Join(folder, name), 0o755); err != nil {
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

func (w *work) fetchGiven(ctx context.Context, g *pipeline.Given, folder string) error {
	if g.Files == 0 {
		return nil
	}
	view := w.views[g.Source]
	root, err := os.OpenRoot(folder)
	if err != nil {
		return fmt.Errorf("opening the folder of a datum: %w", err)
	}
	defer func() { _ = root.Close() }()
	to, err := root.OpenRoot(g.Input)
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

// literal is a path as a pattern that means just that: what is there and below.
func literal(path string) string {
	if !strings.ContainsAny(path, `*?[\`) {
		return path
	}
	quoted := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
	return quoted + "/**"
}
