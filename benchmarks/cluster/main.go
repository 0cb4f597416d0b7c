package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// bench is what all measurements share.
type bench struct {
	// muster is the program that is measured.
	muster string
	// scale divides the sizes, for a quick look; 1 for figures.
	scale int
	table table
	// began is when the first measurement did.
	began time.Time
}

// say tells who waits how far it is.
func (b *bench) say(format string, args ...any) {
	_, _ = fmt.Fprintf(os.Stderr, "bench-cluster: %4.0f s  %s\n", time.Since(b.began).Seconds(), fmt.Sprintf(format, args...))
}

// part is one measurement.
type part struct {
	title   string
	measure func(context.Context) error
}

func main() {
	if err := measure(); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "bench-cluster:", err)
		os.Exit(1)
	}
}

// measure measures what is asked for and prints the table, up to what fails.
func measure() error {
	b := &bench{began: time.Now()}
	only := flag.String("only", "", "measure the parts whose title this regular expression matches")
	flag.IntVar(&b.scale, "scale", 1, "divide sizes by this, for a quick look")
	flag.StringVar(&b.muster, "muster", filepath.Join("bin", "muster"), "the program")
	flag.Parse()
	match, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("reading -only: %w", err)
	}
	if b.scale < 1 {
		return fmt.Errorf("-scale is %d: give 1 or more", b.scale)
	}
	if b.muster, err = filepath.Abs(b.muster); err != nil {
		return err
	}
	log.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err = b.run(ctx, match)
	return errors.Join(err, b.table.write(os.Stdout))
}

// run does the measurements; one that fails does not keep the others from being
// made.
func (b *bench) run(ctx context.Context, match *regexp.Regexp) error {
	var failed []error
	for _, p := range []part{
		{"one gang of 1,000 x 4 GPUs", b.oneGang},
		{"4,000 gangs of one GPU", b.manyGangs},
		{"10,000 jobs of one pod", b.lives},
		{"reclaim of 250 pods of 8 GPUs", b.reclaim},
		{"restart and reasons on 5,000 nodes", b.restart},
	} {
		if ctx.Err() != nil || !match.MatchString(p.title) {
			continue
		}
		began := time.Now()
		b.say("%s", p.title)
		if err := p.measure(ctx); err != nil {
			b.say("%s: failed", p.title)
			failed = append(failed, fmt.Errorf("%s: %w", p.title, err))
			continue
		}
		b.say("%s: measured in %.0f s", p.title, time.Since(began).Seconds())
	}
	return errors.Join(failed...)
}
