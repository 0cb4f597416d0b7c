package gc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/muster-dev/muster/internal/cli/data/opening"
	"github.com/muster-dev/muster/internal/cli/instance"
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
	// Held is the data without references that stays for now; absent if there is none.
	Held *held `json:"held,omitempty"`
}

// held is the data that stays for now, with its end and the processes that keep it.
type held struct {
	Objects int       `json:"objects"`
	Bytes   int64     `json:"bytes"`
	Until   time.Time `json:"until"`
	By      []string  `json:"by,omitempty"`
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
		DryRun: o.dryRun, KeepEnded: o.justStarted(),
	})
	bar.Stop()
	if err != nil && report == (data.CollectReport{}) {
		return err
	}
	return errors.Join(err, o.report(Document{
		DryRun: o.dryRun, Packs: report.Packs, Commits: report.Commits, FreedBytes: report.Bytes,
		Waiting: report.Waiting, KeptPacks: report.Kept, KeptBytes: report.KeptBytes, Joined: report.Joined, Held: describe(report.Held),
	}))
}

// adoption is the longest time that a started Muster needs to take the leases of its runs and jobs
// again.
const adoption = time.Minute

// justStarted reports whether Muster may not yet have taken its leases again. The leases of the
// Muster before it count until then.
func (o *options) justStarted() bool {
	home, err := o.factory.Home()
	if err != nil {
		return true
	}
	state, alive, err := instance.Home(home).Read()
	return err != nil || !alive || state.Phase != instance.Ready || time.Since(state.Started) < adoption
}

// describe records the processes that keep data.
func describe(h *data.Held) *held {
	if h == nil {
		return nil
	}
	d := &held{Objects: h.Objects, Bytes: h.Bytes, Until: h.Until}
	for _, by := range h.By {
		words := by.Holder.String() + ", since " + clock(by.Since)
		if by.Holder.Ended() {
			words = by.Holder.String() + ", which has ended"
		}
		d.By = append(d.By, words)
	}
	return d
}

// clock is a time of the day on this machine.
func clock(t time.Time) string { return t.Local().Format("15:04:05") }

// String returns a sentence about the data that stays for now, the processes that keep it, and the
// end of that time.
func (h *held) String() string {
	what := fmt.Sprintf("kept for now: %s (%s)", terminal.Size64(h.Bytes), terminal.Count(int64(h.Objects), "object"))
	if len(h.By) == 0 {
		return fmt.Sprintf("%s stored a moment ago; `muster data gc` frees it after %s", what, clock(h.Until))
	}
	by, most := h.By, 3
	if len(by) > most {
		by = append(by[:most:most], fmt.Sprintf("%d more", len(h.By)-most))
	}
	return fmt.Sprintf("%s that may be in use by %s; `muster data gc` frees it once they end or, if they were killed, after %s",
		what, strings.Join(by, " and "), clock(h.Until))
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
	if err == nil && d.Held != nil {
		_, err = fmt.Fprintln(o.factory.Streams.Out, d.Held)
	} else if err == nil && d.Waiting > 0 {
		_, err = fmt.Fprintf(o.factory.Streams.Out, "kept for now: %s that a running command may refer to; the next gc looks again\n",
			terminal.Count(int64(d.Waiting), "object"))
	}
	if err == nil && d.Joined > 0 {
		_, err = fmt.Fprintf(o.factory.Streams.Out, "%s %s into larger objects\n", joined, terminal.Count(int64(d.Joined), "small pack"))
	}
	return err
}
