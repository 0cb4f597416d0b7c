package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"
)

// bench is what all measurements share.
type bench struct {
	traces string
	table  table
}

func main() {
	if err := measure(); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "bench-scheduler:", err)
		os.Exit(1)
	}
}

// measure measures everything and prints the table, up to what fails.
func measure() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	b := &bench{traces: os.Getenv("MUSTER_TRACES")}
	if b.traces == "" {
		b.traces = filepath.Join("..", "shared", "traces")
	}
	err := b.run(ctx)
	return errors.Join(err, b.table.write(os.Stdout))
}

// run does every measurement; those before one that fails are kept.
func (b *bench) run(ctx context.Context) error {
	for _, part := range []struct {
		title   string
		measure func(context.Context) error
	}{
		{"deciding", b.deciding},
		{"replaying a made-up workload", b.madeUp},
		{"replaying Philly", b.philly},
		{"packing openb", b.openb},
	} {
		began := time.Now()
		_, _ = fmt.Fprintf(os.Stderr, "bench-scheduler: %s\n", part.title)
		if err := part.measure(ctx); err != nil {
			return fmt.Errorf("%s: %w", part.title, err)
		}
		_, _ = fmt.Fprintf(os.Stderr, "bench-scheduler: %s took %.1f s\n", part.title, time.Since(began).Seconds())
	}
	return nil
}

// trace opens a file of the traces; nil where there is none.
func (b *bench) trace(names ...string) (*os.File, error) {
	path := filepath.Join(append([]string{b.traces}, names...)...)
	file, err := os.Open(path)
	if os.IsNotExist(err) {
		_, _ = fmt.Fprintf(os.Stderr, "bench-scheduler: %s is missing, so its rows are left out; MUSTER_TRACES names the folder\n", path)
		return nil, nil
	}
	return file, err
}
