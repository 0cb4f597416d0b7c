package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
)

// tell adds a line on the suite to the report: name, tests, seconds, and what was done, parted
// by tabs.
func (o options) tell(tests int, seconds float64, done string) error {
	if o.report == "" {
		return nil
	}
	file, err := os.OpenFile(o.report, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("writing the report on the suites: %w", err)
	}
	count := "-"
	if tests > 0 {
		count = strconv.Itoa(tests)
	}
	_, err = fmt.Fprintf(file, "%s\t%s\t%.0f\t%s\n", o.name, count, seconds, done)
	return errors.Join(err, file.Close())
}

// printReport prints the lines of a report as a table, with their sum.
func printReport(to io.Writer, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading the report on the suites: %w", err)
	}
	table := tabwriter.NewWriter(to, 0, 8, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "SUITE\tTESTS\tTIME\tOUTCOME")
	tests, total := 0, 0.0
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		if len(fields) != 4 {
			return fmt.Errorf("reading the report on the suites: %q has %d fields, 4 are expected", line, len(fields))
		}
		count, _ := strconv.Atoi(fields[1])
		took, err := strconv.ParseFloat(fields[2], 64)
		if err != nil {
			return fmt.Errorf("reading the report on the suites: %w", err)
		}
		tests, total = tests+count, total+took
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", fields[0], fields[1], seconds(took), fields[3])
	}
	_, _ = fmt.Fprintf(table, "all\t%d\t%s\tsuites that ran at the same time counted each\n", tests, seconds(total))
	return table.Flush()
}
