package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/muster-dev/muster/hack/suite/event"
	"github.com/muster-dev/muster/hack/suite/pass"
)

// errFailed is the outcome of a suite whose failures have been shown already.
var errFailed = errors.New("failed")

// execute runs a suite, or reports that it passed before.
func execute(ctx context.Context, o options) error {
	o.print("muster: test-%s\n", o.name)
	if !o.heavy {
		if err := stampFiles(ctx); err != nil {
			return err
		}
		start := time.Now()
		summary, err := watch(ctx, o, o.light)
		return errors.Join(err, o.tell(summary.Tests(), time.Since(start).Seconds(), "ran, results of Go's cache included"))
	}
	work, err := os.MkdirTemp("", "muster-suite-")
	if err != nil {
		return fmt.Errorf("making a folder for test binaries: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }()

	// 1. Everything that the outcome depends on.
	var binaries []binary
	if o.command == "" {
		if binaries, err = o.compile(ctx, work); err != nil {
			return err
		}
	}
	in, err := o.gather(ctx, binaries)
	if err != nil {
		return err
	}
	records, err := pass.Open(filepath.Join(o.cache, "passes"))
	if err != nil {
		// Without records every run is a first one.
		o.print("muster: test-%s: no passes are remembered: %v\n", o.name, err)
	}
	// 2. An earlier pass.
	if records != nil {
		if before := o.passed(records, in); before != nil {
			return o.tell(before.Tests, 0, "passed "+at(before.At)+" in "+seconds(before.Seconds))
		}
	}
	// 3. A run.
	record := pass.Record{Suite: o.name, Inputs: in}
	start := time.Now()
	summary, err := o.runHeavy(ctx, binaries)
	record.At, record.Seconds, record.Tests = time.Now(), time.Since(start).Seconds(), summary.Tests()
	err = errors.Join(err, o.tell(record.Tests, record.Seconds, "ran"))
	if records == nil || ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
	}
	switch {
	case errors.Is(err, errFailed):
		return errors.Join(err, records.Fail(record))
	case err == nil && len(summary.Skips) == 0 && (summary.Tests() > 0 || o.command != ""):
		o.remember(records, record)
	}
	return err // a run that left tests out is neither a pass nor a failure
}

func (o options) runHeavy(ctx context.Context, binaries []binary) (event.Summary, error) {
	if o.command != "" {
		cmd := command(ctx, o.command)
		cmd.Stdout = o.out
		return event.Summary{}, outcome(cmd.Run())
	}
	return watch(ctx, o, func(ctx context.Context, to io.Writer) error { return o.shard(ctx, binaries, to) })
}

func (o options) print(format string, args ...any) { _, _ = fmt.Fprintf(o.out, format, args...) }

// stampFiles gives files the times that Go's cache of test results expects, where the clone is
// run so: what was built since has other ones.
func stampFiles(ctx context.Context) error {
	if os.Getenv("MUSTER_TEST_MTIMES") != "1" {
		return nil
	}
	cmd := command(ctx, filepath.Join("hack", "mtimes"))
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("setting the times of files: %w", err)
	}
	return nil
}

func at(t time.Time) string { return t.Local().Format("2006-01-02 15:04") }

// passed returns an earlier pass with the same inputs, and tells of it; or tells of what changed
// since the last pass.
func (o options) passed(records *pass.Records, in pass.Inputs) *pass.Record {
	if o.fresh {
		return nil
	}
	if before := records.Passed(o.name, in, time.Now()); before != nil {
		o.print("muster: test-%s: not run: passed %s with the same inputs (%d tests in %s); CI_FULL=1 runs it\n",
			o.name, at(before.At), before.Tests, seconds(before.Seconds))
		return before
	}
	if last := records.Last(o.name); last != nil {
		if changed := in.Changed(last.Inputs); len(changed) > 0 {
			o.print("muster: test-%s: since its last pass changed: %s\n", o.name, strings.Join(changed, ", "))
		}
	}
	return nil
}

// remember records a pass. A suite that passed has passed whether that can be recorded or not.
func (o options) remember(records *pass.Records, record pass.Record) {
	switch kept, err := records.Pass(record); {
	case err != nil:
		o.print("muster: test-%s: its pass is not remembered: %v\n", o.name, err)
	case !kept:
		o.print("muster: test-%s: not remembered: it failed before with the same inputs\n", o.name)
	}
}

// watch shows the events that produce writes, keeps them, and sums them up.
func watch(ctx context.Context, o options, produce func(context.Context, io.Writer) error) (event.Summary, error) {
	var events bytes.Buffer
	start := time.Now()
	failed := o.show(ctx, &events, produce)
	if err := o.keep(events.Bytes()); err != nil {
		// `make test-times` lacks them, and shards are split by earlier times.
		o.print("muster: test-%s: the events of its tests are not kept: %v\n", o.name, err)
	}
	summary, err := event.Read(&events)
	err = errors.Join(failed, err)
	summarize(o.out, o.name, summary, time.Since(start))
	if len(summary.Skips) > 0 && os.Getenv("CI") == "true" {
		err = errors.Join(err, fmt.Errorf("test-%s: %d skipped, and with CI=true a skip is a failure", o.name, len(summary.Skips)))
	}
	return summary, err
}

// keep keeps the events of the suite's last run.
func (o options) keep(events []byte) error {
	folder := filepath.Join(o.cache, "events")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("making their folder: %w", err)
	}
	file, err := os.CreateTemp(folder, "new-")
	if err != nil {
		return fmt.Errorf("making their file: %w", err)
	}
	_, err = file.Write(events)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), filepath.Join(folder, o.name+".json"))
	}
	if err != nil {
		_ = os.Remove(file.Name())
		return fmt.Errorf("writing their file: %w", err)
	}
	return nil
}

// summarize prints how long the suite and its longest tests took, and what was skipped.
func summarize(to io.Writer, name string, s event.Summary, took time.Duration) {
	var longest []string
	for _, d := range s.Durations {
		if d.Top() && d.Seconds >= 10 && len(longest) < 8 {
			longest = append(longest, fmt.Sprintf("%s %.0f s", d.Name, d.Seconds))
		}
	}
	_, _ = fmt.Fprintf(to, "muster: test-%s: %d tests in %s\n", name, s.Tests(), seconds(took.Seconds()))
	if len(longest) > 0 {
		_, _ = fmt.Fprintf(to, "muster: longest: %s\n", strings.Join(longest, ", "))
	}
	for _, skip := range s.Skips {
		_, _ = fmt.Fprintf(to, "muster: skipped %s: %s\n", skip.Name, skip.Reason)
	}
}

func seconds(s float64) string {
	if s < 60 {
		return fmt.Sprintf("%.0f s", s)
	}
	return fmt.Sprintf("%d min %02d s", int(s)/60, int(s)%60)
}
