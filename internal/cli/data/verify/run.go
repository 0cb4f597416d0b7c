package verify

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/data/meter"
	"github.com/muster-dev/muster/internal/cli/data/opening"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/ref"
)

// Document is what -o json prints.
type Document struct {
	Commits int   `json:"commits"`
	Files   int64 `json:"files"`
	Bytes   int64 `json:"bytes"`
	// Problems are what is damaged or gone.
	Problems []Problem `json:"problems"`
}

// Problem is one thing that is wrong.
type Problem struct {
	// Object is the damaged object of the store.
	Object string `json:"object"`
	// Commit and Path are the first that it hits; without a path a part of the tree
	// is hit.
	Commit string `json:"commit"`
	Path   string `json:"path,omitempty"`
	Reason string `json:"reason"`
}

func (o *options) run(ctx context.Context, names []string) error {
	store, err := opening.OpenStore(ctx, o.factory)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	heads, err := find(ctx, store, names)
	if err != nil {
		return err
	}
	bar := meter.New(o.factory.Streams.Err, "Verifying")
	defer bar.Stop()
	report, err := store.Verify(ctx, data.VerifyOptions{Heads: heads, Bytes: true, Progress: bar.See})
	if err != nil {
		return err
	}
	bar.Stop()
	if err := o.report(report); err != nil {
		return err
	}
	if damages := len(report.Problems); damages > 0 {
		return exit.With(exit.Failure, fmt.Errorf("%s: restore the objects from a copy, or put the files again", terminal.Count(int64(damages), "problem")))
	}
	return nil
}

// find is the heads of the datasets that are named, or of all of the namespace.
func find(ctx context.Context, store *opening.Store, names []string) ([]ref.Heads, error) {
	if len(names) == 0 {
		list := &v1alpha1.DatasetList{}
		if err := store.Server.List(ctx, list, client.InNamespace(store.Namespace)); err != nil {
			return nil, fmt.Errorf("listing the datasets: %w", err)
		}
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
	}
	var heads []ref.Heads
	for _, name := range names {
		if _, err := opening.Object(ctx, store.Server, store.Namespace, name); err != nil {
			return nil, err
		}
		heads = append(heads, store.Dataset(name).Heads)
	}
	return heads, nil
}

func (o *options) report(r data.VerifyReport) error {
	document := Document{Commits: r.Commits, Files: r.Files, Bytes: r.Bytes, Problems: []Problem{}}
	for _, p := range r.Problems {
		document.Problems = append(document.Problems, Problem{Object: p.Object, Commit: p.Commit.String(), Path: p.Path, Reason: p.Reason})
	}
	out := o.factory.Streams.Out
	if *o.format != output.Human {
		return output.Print(out, *o.format, document)
	}
	if len(document.Problems) == 0 {
		_, err := fmt.Fprintf(out, "%s, %s, %s: nothing is damaged\n", terminal.Count(int64(r.Commits), "commit"),
			terminal.Count(r.Files, "file"), terminal.Size64(r.Bytes))
		return err
	}
	table := terminal.NewTable("COMMIT", "PATH", "OBJECT", "WHAT IS WRONG")
	for _, p := range document.Problems {
		table.Row(p.Commit[:12], p.Path, p.Object, p.Reason)
	}
	return table.Write(out, o.factory.Streams.OutStyle(), "")
}
