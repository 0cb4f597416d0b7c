package prune

import (
	"fmt"
	"time"

	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/environment/retention"
	"github.com/muster-dev/muster/internal/environment/upkeep"
)

// Document is what `muster prune -o json` prints.
type Document struct {
	// DryRun is true where nothing was removed.
	DryRun bool `json:"dryRun"`
	// FreedBytes is the size of everything that went, or would go.
	FreedBytes   int64 `json:"freedBytes"`
	Code         Part  `json:"code"`
	Environments Part  `json:"environments"`
	// Results are those of pipelines.
	Results Results `json:"results"`
}

// Part is what happened to things of one kind.
type Part struct {
	// Removed are those that went, or would go, by name.
	Removed []Item `json:"removed"`
	// Kept is how many stay; Recent is how many of them only because they were
	// stored, built or asked for within the last hour.
	Kept   int `json:"kept"`
	Recent int `json:"recent"`
	// FreedBytes is the size of the files that went, those that were never
	// finished included.
	FreedBytes int64 `json:"freedBytes"`
	// Forever is true where the retention keeps all of them: they were not
	// looked at.
	Forever bool `json:"forever,omitempty"`
}

// Item is one thing that went, or would go.
type Item struct {
	// Name is its digest or key.
	Name     string    `json:"name"`
	LastUsed time.Time `json:"lastUsed"`
	// Bytes is the size of what it held; snapshots share contents.
	Bytes int64 `json:"bytes"`
}

func (o *options) document(report upkeep.Report) Document {
	return Document{DryRun: o.request.DryRun, FreedBytes: report.Bytes(), Code: part(report.Code), Environments: part(report.Environments)}
}

func part(p upkeep.Part) Part {
	out := Part{Removed: []Item{}, Kept: p.Kept, Recent: p.Recent, FreedBytes: p.Bytes, Forever: p.Forever}
	for _, r := range p.Removed {
		out.Removed = append(out.Removed, Item{Name: r.Name, LastUsed: r.LastUsed.UTC(), Bytes: r.Bytes})
	}
	return out
}

// table has a row for each thing that went.
func (o *options) table(report upkeep.Report) *terminal.Table {
	table := terminal.NewTable("KIND", "NAME", "LAST USED", "SIZE")
	rows := func(kind string, removed []retention.Removed) {
		for _, r := range removed {
			table.Row(kind, r.Name, terminal.WholeSpan(max(o.now().Sub(r.LastUsed), 0))+" ago", terminal.Size64(r.Bytes))
		}
	}
	rows("code", report.Code.Removed)
	rows("environment", report.Environments.Removed)
	return table
}

// lines say what went, what that freed, and why the rest stays.
func (o *options) lines(report upkeep.Report) []string {
	removed, freed := "removed", "freed"
	if o.request.DryRun {
		removed, freed = "would remove", "would free"
	}
	lines := []string{fmt.Sprintf("%s %s and %s, %s %s", removed,
		terminal.Count(int64(len(report.Code.Removed)), "code snapshot"),
		terminal.Count(int64(len(report.Environments.Removed)), "environment"), freed, terminal.Size64(report.Bytes()))}
	for _, kind := range []struct {
		noun string
		part upkeep.Part
	}{{"code snapshot", report.Code}, {"environment", report.Environments}} {
		switch {
		case kind.part.Forever:
			lines = append(lines, kind.noun+"s are kept for ever, as the configuration says; --older-than removes them all the same")
		case kind.part.Recent > 0:
			lines = append(lines, fmt.Sprintf("kept for now: %s that nobody uses, stored or asked for within the last hour",
				terminal.Count(int64(kind.part.Recent), kind.noun)))
		}
	}
	return lines
}
