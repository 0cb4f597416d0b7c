package results

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/data/meter"
	"github.com/muster-dev/muster/internal/cli/data/opening"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/person"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/dataset"
	"github.com/muster-dev/muster/internal/pipeline"
	"github.com/muster-dev/muster/internal/pipeline/transfer"
)

type importing struct {
	factory *connection.Factory
	format  *output.Format
}

// Imported is what `results import` took, as -o json prints it.
type Imported struct {
	// Pipeline is whose results they are, where they come from.
	Pipeline string `json:"pipeline"`
	// Results is how many results were taken, There how many were here already, Files and
	// Bytes what is in those that were taken.
	Results int   `json:"results"`
	There   int   `json:"there"`
	Files   int64 `json:"files"`
	Bytes   int64 `json:"bytes"`
}

func (o *importing) run(ctx context.Context, file string) (err error) {
	in := o.factory.Streams.In
	if file == stdio && terminal.Is(in) {
		return exit.Usage("name an archive, or send one to standard input")
	}
	if file != stdio {
		opened, err := os.Open(file)
		if err != nil {
			return fmt.Errorf("opening the archive: %w", err)
		}
		defer func() { _ = opened.Close() }()
		in = opened
	}
	store, err := opening.OpenStore(ctx, o.factory)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if err := dataset.Ensure(ctx, store.Server, store.Namespace, "", pipeline.ResultsDataset); err != nil {
		return err
	}
	bar := meter.New(o.factory.Streams.Err, "Importing results")
	defer bar.Stop()
	m, count, err := transfer.Import(ctx, in, transfer.Importing{
		Results: store.Dataset(pipeline.ResultsDataset).Dataset, Branch: data.DefaultBranch, Trees: store.Trees(),
		Author: person.Author(ctx, o.factory.Client), At: time.Now(), Progress: bar.See,
	})
	if err != nil {
		return err
	}
	bar.Stop()
	return o.report(Imported{Pipeline: m.Pipeline, Results: count.Results, There: count.There, Files: count.Files, Bytes: count.Bytes})
}

func (o *importing) report(document Imported) error {
	streams := o.factory.Streams
	if *o.format != output.Human {
		return output.Print(streams.Out, *o.format, document)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s of pipeline %s taken: %s, %s", terminal.Count(int64(document.Results), "result"), document.Pipeline,
		terminal.Count(document.Files, "file"), terminal.Size64(document.Bytes))
	if document.There > 0 {
		fmt.Fprintf(&text, "; %d were here already", document.There)
	}
	_, err := io.WriteString(streams.Out, text.String()+"\n")
	return err
}
