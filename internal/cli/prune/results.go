package prune

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/data/opening"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/dataset/expiry"
)

// Results is what happened to results of pipelines.
type Results struct {
	// Removed is how many went, or would go, those of datums that failed included.
	Removed int `json:"removed"`
	// States is the number of removed datasets of states whose pipelines are gone, or of those that a
	// dry run would remove.
	States int `json:"states,omitempty"`
	// Busy are namespaces that were left alone, since a run is on its way there.
	Busy []string `json:"busy,omitempty"`
	// Forever is true where the retention keeps all of them.
	Forever bool `json:"forever,omitempty"`
}

// results removes results that nobody has and nobody used for long. Where nobody has
// put any data yet there are none.
func (o *options) results(ctx context.Context, own *connection.Factory, home string, keep time.Duration) (out Results, err error) {
	if o.request.OlderThan != nil {
		keep = *o.request.OlderThan
	} else if keep <= 0 {
		return Results{Forever: true}, nil
	}
	if _, err := os.Stat(filepath.Join(home, opening.Folder)); errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	server, _, err := own.Reach()
	if err != nil {
		return out, err
	}
	store, err := opening.OpenFolder(ctx, home)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	one := func(context.Context, string) (*data.Store, error) { return store, nil }
	report, err := expiry.Sweep(ctx, expiry.Options{Client: server, Store: one, Keep: keep, At: o.now(), DryRun: o.request.DryRun})
	return Results{Removed: report.Results + report.Failed, States: report.States, Busy: report.Busy}, err
}

// sayResults writes a line about them, if there is anything to say.
func (o *options) sayResults(r Results) error {
	removed := "removed"
	if o.request.DryRun {
		removed = "would remove"
	}
	var lines []string
	if r.Removed > 0 {
		lines = append(lines, fmt.Sprintf("%s %s of pipelines; muster data gc frees what only they had", removed, terminal.Count(int64(r.Removed), "result")))
	}
	if r.States > 0 {
		lines = append(lines, fmt.Sprintf("%s %s of states, whose pipelines are gone; muster data gc frees what only they had", removed, terminal.Count(int64(r.States), "dataset")))
	}
	if len(r.Busy) > 0 {
		lines = append(lines, "left alone, since a run is on its way: results in namespace "+strings.Join(r.Busy, ", "))
	}
	if r.Forever {
		lines = append(lines, "results are kept for ever, as the configuration says; --older-than removes them all the same")
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(o.factory.Streams.Out, line); err != nil {
			return err
		}
	}
	return nil
}
