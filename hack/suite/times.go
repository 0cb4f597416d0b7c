package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/muster-dev/muster/hack/suite/event"
)

// costliest is how many tests -times prints.
const costliest = 30

// printTimes prints the costliest tests of the last run of each suite, and each suite's sum.
func printTimes(to io.Writer, cache string) error {
	files, err := filepath.Glob(filepath.Join(cache, "events", "*.json"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no events of tests below %s: run `make test` first", cache)
	}
	type row struct {
		suite string
		event.Duration
	}
	var rows []row
	table := tabwriter.NewWriter(to, 0, 8, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "SUITE\tTESTS\tSECONDS OF TESTS\tLAST RUN")
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		summary, when, err := readEvents(path)
		if err != nil {
			return err
		}
		sum := 0.0
		for _, d := range summary.Durations {
			if d.Top() {
				sum += d.Seconds
				rows = append(rows, row{name, d})
			}
		}
		_, _ = fmt.Fprintf(table, "%s\t%d\t%.0f\t%s\n", name, summary.Tests(), sum, when)
	}
	_, _ = fmt.Fprintln(table, "\nSECONDS\tTEST\tSUITE\tPACKAGE")
	slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(b.Seconds, a.Seconds) })
	for _, r := range rows[:min(costliest, len(rows))] {
		_, _ = fmt.Fprintf(table, "%.1f\t%s\t%s\t%s\n", r.Seconds, r.Name, r.suite, strings.TrimPrefix(r.Package, "github.com/muster-dev/muster/"))
	}
	return table.Flush()
}

func readEvents(path string) (event.Summary, string, error) {
	file, err := os.Open(path)
	if err != nil {
		return event.Summary{}, "", fmt.Errorf("reading the events of tests: %w", err)
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return event.Summary{}, "", fmt.Errorf("reading the events of tests: %w", err)
	}
	summary, err := event.Read(file)
	return summary, info.ModTime().Format("2006-01-02 15:04"), err
}
