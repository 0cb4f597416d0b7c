package gc

import (
	"context"
	"errors"
	"fmt"

	"github.com/muster-dev/muster/internal/cli/data/opening"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/ref"
	"github.com/muster-dev/muster/internal/dataset"
)

// Document is what -o json prints.
type Document struct {
	// DryRun is true where nothing was removed.
	DryRun bool `json:"dryRun"`
	// Packs, Commits and FreedBytes went, or would go.
	Packs      int   `json:"packs"`
	Commits    int   `json:"commits"`
	FreedBytes int64 `json:"freedBytes"`
	// Waiting counts what nothing reaches and what stays for now, because a command
	// that runs may refer to it.
	Waiting int `json:"waiting"`
	// KeptPacks and KeptBytes stay.
	KeptPacks int   `json:"keptPacks"`
	KeptBytes int64 `json:"keptBytes"`
	// Joined are small packs that came, or would come, to lie together.
	Joined int `json:"joined"`
}

func (o *options) run(ctx context.Context) error {
	if err := opening.Alone(o.factory, "its manager collects what nothing needs, once a day and in each namespace what is older than a day; "+
		"nobody else can (`muster data du` says how much there is)"); err != nil {
		return err
	}
	store, err := opening.OpenStore(ctx, o.factory)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	bar := terminal.NewProgress(o.factory.Streams.Err, "Looking for what nothing needs", terminal.Things)
	defer bar.Stop()
	report, err := store.Collect(ctx, data.CollectOptions{
		Heads:  []ref.Heads{dataset.Everything{Client: store.Server}},
		DryRun: o.dryRun,
	})
	bar.Stop()
	if err != nil && report == (data.CollectReport{}) {
		return err
	}
	return errors.Join(err, o.report(Document{
		DryRun: o.dryRun, Packs: report.Packs, Commits: report.Commits, FreedBytes: report.Bytes,
		Waiting: report.Waiting, KeptPacks: report.Kept, KeptBytes: report.KeptBytes, Joined: report.Joined,
	}))
}

func (o *options) report(d Document) error {
	if *o.format != output.Human {
		return output.Print(o.factory.Streams.Out, *o.format, d)
	}
	removed, freed, joined := "removed", "freed", "joined"
	if d.DryRun {
		removed, freed, joined = "would remove", "would free", "would join"
	}
	_, err := fmt.Fprintf(o.factory.Streams.Out, "%s %s and %s, %s %s; %s stay\n", removed, terminal.Count(int64(d.Packs), "pack"),
		terminal.Count(int64(d.Commits), "commit"), freed, terminal.Size64(d.FreedBytes), terminal.Size64(d.KeptBytes))
	if err == nil && d.Waiting > 0 {
		_, err = fmt.Fprintf(o.factory.Streams.Out, "kept for now: %s that a running command may refer to; the next gc looks again\n",
			terminal.Count(int64(d.Waiting), "object"))
	}
	if err == nil && d.Joined > 0 {
		_, err = fmt.Fprintf(o.factory.Streams.Out, "%s %s into larger objects\n", joined, terminal.Count(int64(d.Joined), "small pack"))
	}
	return err
}
