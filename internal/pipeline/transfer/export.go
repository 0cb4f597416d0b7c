package transfer

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/tree"
	"github.com/muster-dev/muster/internal/pipeline"
)

// Exporting says what an archive is made of.
type Exporting struct {
	// Pipeline is the name of the pipeline, States what the last run of each of its
	// stages was made of. Of an impure one, whose results count for one run alone,
	// nothing is written.
	Pipeline string
	States   map[string]*pipeline.State
	// Results are all results, Trees reads all trees.
	Results *data.View
	Trees   *tree.Tree
	// At is when the archive is made.
	At time.Time
	// Progress hears how much was written. Default: nobody does.
	Progress func(data.Progress)
}

// Export writes an archive of the results that the stages have. What of them is not kept
// any more, and what failed, is left out. A result that was computed anew, at somebody's
// wish, goes under the key that it stands for.
func Export(ctx context.Context, to io.Writer, o Exporting) (Count, error) {
	e := &exporter{Exporting: o, out: tar.NewWriter(to), sum: newSummed(), recipes: map[digest.ID]bool{}, results: map[digest.ID]bool{}}
	if err := e.all(ctx); err != nil {
		return e.count, fmt.Errorf("exporting the results of pipeline %s: %w", o.Pipeline, err)
	}
	return e.count, nil
}

type exporter struct {
	Exporting
	out *tar.Writer
	sum summed
	// recipes and results are those that were written.
	recipes, results map[digest.ID]bool
	count            Count
}

func (e *exporter) all(ctx context.Context) error {
	m := Manifest{Version: version, Pipeline: e.Pipeline, Stages: map[string]digest.ID{}}
	for name, s := range e.States {
		if s != nil && !s.Impure {
			m.Stages[name] = s.Recipe
		}
	}
	if err := e.document(beginFile, m); err != nil {
		return err
	}
	for name := range m.Stages {
		s := e.States[name]
		if _, err := e.recipe(ctx, s.Recipe); err != nil {
			return err
		}
		err := s.Each(ctx, e.Trees, func(datum string, key digest.ID) error {
			if err := e.result(ctx, key); err != nil {
				return fmt.Errorf("stage %s, datum %s: %w", name, datum, err)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if err := e.document(endFile, ending{Results: e.count.Results, Sum: e.sum.String()}); err != nil {
		return err
	}
	return e.out.Close()
}

// recipe writes a recipe, once, and says whether it is kept.
func (e *exporter) recipe(ctx context.Context, id digest.ID) (bool, error) {
	if e.recipes[id] {
		return true, nil
	}
	r, err := pipeline.ReadRecipe(ctx, e.Results, id)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	e.recipes[id] = true
	return true, e.document(pipeline.RecipePath(id), r)
}

// result writes one, once.
func (e *exporter) result(ctx context.Context, at digest.ID) error {
	record, err := pipeline.ReadRecord(ctx, e.Results, at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	key := pipeline.Key(record.Recipe, record.Files)
	if record.Exit != 0 || record.Error != "" || e.results[key] {
		return nil
	}
	if kept, err := e.recipe(ctx, record.Recipe); !kept || err != nil {
		return err
	}
	record.Key, e.results[key] = key, true
	if err := e.document(pipeline.ResultPath(key)+"/"+pipeline.RecordFile, record); err != nil {
		return err
	}
	e.count.Results++
	from := pipeline.ResultPath(at) + "/"
	for f, err := range e.Trees.From(ctx, e.Results.Commit().Tree, from) {
		if err != nil {
			return err
		}
		inside, ok := strings.CutPrefix(f.Path, from)
		if !ok {
			break
		}
		if inside != pipeline.LogFile && !strings.HasPrefix(inside, pipeline.OutFolder+"/") {
			continue
		}
		if err := e.file(ctx, f, pipeline.ResultPath(key)+"/"+inside); err != nil {
			return fmt.Errorf("%s: %w", inside, err)
		}
	}
	return nil
}

// file writes one of a result, under a name.
func (e *exporter) file(ctx context.Context, f *tree.Entry, name string) (err error) {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: f.Size, Mode: 0o644, ModTime: e.At, Format: tar.FormatPAX}
	if f.Executable {
		h.Mode = 0o755
	}
	if f.Kind == tree.Link {
		h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, f.Target, 0
	}
	e.count.Files++
	if h.Size == 0 {
		return e.member(h, strings.NewReader(""))
	}
	from, err := e.Results.Open(ctx, f.Path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	e.count.Bytes += h.Size
	return e.member(h, from)
}

// document writes what Muster writes itself.
func (e *exporter) document(name string, object any) error {
	text, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(text)), Mode: 0o644, ModTime: e.At, Format: tar.FormatPAX}
	return e.member(h, strings.NewReader(string(text)))
}

// member writes a member of the archive.
func (e *exporter) member(h *tar.Header, content io.Reader) error {
	if h.Name != endFile {
		if err := e.sum.member(h); err != nil {
			return err
		}
	}
	if err := e.out.WriteHeader(h); err != nil {
		return err
	}
	if _, err := io.Copy(io.MultiWriter(e.out, e.sum.hash), content); err != nil {
		return err
	}
	if e.Progress != nil {
		e.Progress(data.Progress{Files: e.count.Files, Bytes: e.count.Bytes})
	}
	return nil
}
