package results

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/data/meter"
	"github.com/muster-dev/muster/internal/cli/data/opening"
	"github.com/muster-dev/muster/internal/cli/data/whole"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/pipeline/lookup"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/dataset"
	plans "github.com/muster-dev/muster/internal/pipeline"
	"github.com/muster-dev/muster/internal/pipeline/transfer"
)

type exporting struct {
	factory *connection.Factory
	format  *output.Format
}

// Exported is what `results export` wrote, as -o json prints it.
type Exported struct {
	Pipeline string `json:"pipeline"`
	File     string `json:"file,omitempty"`
	// Stages are those whose results were written; Left, with why, those of which there
	// are none to write.
	Stages []string          `json:"stages"`
	Left   map[string]string `json:"left,omitempty"`
	// Results is how many results were written, Files and Bytes what is in them.
	Results int   `json:"results"`
	Files   int64 `json:"files"`
	Bytes   int64 `json:"bytes"`
}

func (o *exporting) run(ctx context.Context, name, file string) (err error) {
	if file == stdio && terminal.Is(o.factory.Streams.Out) {
		return exit.Usage("an archive is not for a terminal: name a file, or send it on (muster pipeline results export %s | ...)", name)
	}
	if file == stdio && *o.format != output.Human {
		return exit.Usage("standard output has the archive: name a file where -o %s is wanted", *o.format)
	}
	store, err := opening.OpenStore(ctx, o.factory)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	e := transfer.Exporting{Pipeline: name, Trees: store.Trees(), At: time.Now()}
	document := Exported{Pipeline: name, File: file, Stages: []string{}, Left: map[string]string{}}
	if e.States, err = states(ctx, store, name, &document); err != nil {
		return err
	}
	results := store.Dataset(plans.ResultsDataset)
	head, err := results.Resolve(ctx, data.DefaultBranch)
	if len(document.Stages) == 0 || errors.Is(err, fs.ErrNotExist) {
		return exit.NotFound("pipeline %s has no results yet: `muster pipeline runs %s` says what it did", name, name)
	}
	if err != nil {
		return fmt.Errorf("reading the results: %w", err)
	}
	lease, err := store.Pin(ctx, head.ID) // else what is read could be collected
	if err != nil {
		return fmt.Errorf("holding the results: %w", err)
	}
	defer func() { _ = lease.Release(context.WithoutCancel(ctx)) }()
	if e.Results, err = results.At(ctx, head.ID.String()); err != nil {
		return fmt.Errorf("reading the results: %w", err)
	}
	bar := meter.New(o.factory.Streams.Err, "Exporting results of "+name)
	defer bar.Stop()
	e.Progress = bar.See
	count, err := o.write(ctx, file, e)
	if err != nil {
		return err
	}
	bar.Stop()
	document.Results, document.Files, document.Bytes = count.Results, count.Files, count.Bytes
	return o.report(document)
}

// states are what the last runs of a pipeline's stages were made of.
func states(ctx context.Context, store *opening.Store, name string, document *Exported) (map[string]*plans.State, error) {
	p, err := lookup.Pipeline(ctx, store.Server, store.Namespace, name)
	if err != nil {
		return nil, err
	}
	graph, err := plans.Parse(p.Name, &p.Spec)
	if err != nil {
		return nil, fmt.Errorf("pipeline %s: %w", name, err)
	}
	kept := store.Dataset(plans.StatesDataset(name)).Dataset
	all := map[string]*plans.State{}
	for _, s := range graph.Stages {
		state, err := plans.Previous(ctx, store.Dataset(s.Dataset).Dataset, s.Branch, kept)
		if _, missing := errors.AsType[*dataset.MissingError](err); err != nil && !missing {
			return nil, fmt.Errorf("reading what stage %s was made of: %w", s.Name, err)
		}
		switch {
		case state == nil:
			document.Left[s.Name] = "it has not run yet"
		case state.Impure:
			document.Left[s.Name] = "it is impure: its results count for one run alone"
		default:
			all[s.Name] = state
			document.Stages = append(document.Stages, s.Name)
		}
	}
	return all, nil
}

// write writes an archive to standard output, or to a file that has its name only once it
// is whole.
func (o *exporting) write(ctx context.Context, to string, e transfer.Exporting) (count transfer.Count, err error) {
	if to == stdio {
		return transfer.Export(ctx, terminal.Data(o.factory.Streams.Out), e)
	}
	err = whole.File(to, func(out io.Writer) error {
		count, err = transfer.Export(ctx, out, e)
		return err
	})
	return count, err
}

// report says what was written: beside the archive where that is on standard output.
func (o *exporting) report(document Exported) error {
	streams := o.factory.Streams
	if *o.format != output.Human {
		return output.Print(streams.Out, *o.format, document)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s of %s: %s, %s\n", terminal.Count(int64(document.Results), "result"), strings.Join(document.Stages, ", "),
		terminal.Count(document.Files, "file"), terminal.Size64(document.Bytes))
	var left []string
	for stage, why := range document.Left {
		left = append(left, fmt.Sprintf("not of %s: %s\n", stage, why))
	}
	slices.Sort(left)
	text.WriteString(strings.Join(left, ""))
	to := streams.Err
	if document.File != stdio {
		to = streams.Out
	}
	_, err := io.WriteString(to, text.String())
	return err
}
