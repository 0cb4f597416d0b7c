package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// settings are what the flags say.
type settings struct {
	dir   string
	scale float64
	runs  int
	only  string
	cold  bool
	// programs is where those are that are compared with.
	programs string
	// s3 is the address of a service, delay what is added to each of its answers.
	s3    string
	delay time.Duration
	// copier is rclone.
	copier string
	// muster is the program that serves S3 clients and runs pipelines; empty: the
	// gateway alone, and no runs.
	muster string
}

// measured is what one process did.
type measured struct {
	Seconds float64
	// Memory is the most that the process had resident, in bytes.
	Memory int64
	// Stored is how many bytes were written, Reads how many objects were asked for.
	Stored int64
	Reads  int
	Files  int64
	// Work is how many datums a plan would compute.
	Work int64
	// Stolen is which part of the processors' time the host of a virtual machine took
	// meanwhile, 0 to 1, where that was looked at.
	Stolen float64
}

func main() {
	var s settings
	step := flag.String("step", "", "what a child process does (internal)")
	flag.StringVar(&s.dir, "dir", "", "where to write, on the disk that is to be measured (default: a temporary folder)")
	flag.Float64Var(&s.scale, "scale", 1, "part of the full size: 8 GB, 200,000 files, 1,000,000 files, 8,192 objects")
	flag.IntVar(&s.runs, "runs", 3, "how often; the median counts")
	flag.StringVar(&s.only, "only", "", "rows whose name begins so: file, small, diff, read, mounts, gateway, commits, plan, runs")
	flag.StringVar(&s.s3, "s3", "", "address of an S3 service of yours, such as http://127.0.0.1:9000, for the row read: it makes a bucket there, and removes it; AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY say who asks (default: versitygw on a folder)")
	flag.StringVar(&s.copier, "rclone", "bin/s3-clients/bin/rclone", "the program to compare the row read with")
	flag.DurationVar(&s.delay, "delay", 20*time.Millisecond, "what is added to each answer of that service")
	flag.StringVar(&s.muster, "muster", "", "program whose S3 gateway is measured, with its API server in the loop (default: the gateway alone, heads in a folder), and whose runs of pipelines are (default: that row is left out)")
	flag.BoolVar(&s.cold, "cold", false, "drop what is read from the page cache first, file by file")
	flag.StringVar(&s.programs, "peers", "", "where restic and DVC are installed, by hack/bench-peers")
	flag.Parse()
	if err := run(s, *step, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(s settings, step string, args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch step {
	case "":
		return parent(ctx, s)
	case "gateway", "versitygw":
		return serveS3(ctx, step == "versitygw", args[0])
	case "mount":
		return mountStep(ctx, args)
	case "mount-fill":
		return mountFill(ctx, args)
	}
	return child(ctx, step, args)
}

// parent prepares, runs every row, and prints the table.
func parent(ctx context.Context, s settings) (err error) {
	if s.dir, err = os.MkdirTemp(s.dir, "bench-data-"); err != nil {
		return err
	}
	defer func() {
		if gone := os.RemoveAll(s.dir); err == nil {
			err = gone
		}
	}()
	if s.programs, err = filepath.Abs(s.programs); err != nil {
		return err
	}
	b, matched := &bench{settings: s}, false
	for _, rows := range []struct {
		name string
		run  func(context.Context) error
	}{
		// These make files one by one: others, which remove very many, come after them.
		{"gateway", b.gateway}, {"commits", b.commits}, {"runs", b.pipelines},
		{"file", b.file}, {"small", b.small}, {"diff", b.diff}, {"read", b.read}, {"mounts", b.mounts}, {"plan", b.plans},
	} {
		if !strings.HasPrefix(rows.name, s.only) {
			continue
		}
		matched = true
		if err := rows.run(ctx); err != nil {
			return fmt.Errorf("measuring %s: %w", rows.name, err)
		}
	}
	if !matched {
		return fmt.Errorf("-only %s: no rows' name begins so (see -help)", s.only)
	}
	if with := b.versions(ctx); with != "" {
		fmt.Printf("beside %s\n\n", with)
	}
	cache := "warm"
	if s.cold {
		cache = "cold"
	}
	fmt.Printf("scale %g, %d runs, %s page cache, cold process, durable\n\n| what | figure | anchor | target | |\n|---|---|---|---|---|\n", s.scale, s.runs, cache)
	for _, r := range b.table {
		verdict := "met"
		switch {
		case r.target == "-":
			verdict = ""
		case !r.met:
			verdict = "MISSED"
		}
		fmt.Printf("| %s | %s | %s | %s | %s |\n", r.what, r.figure, r.anchor, r.target, verdict)
	}
	return nil
}

// row is a line of the table.
type row struct {
	what, figure, anchor, target string
	met                          bool
}

type bench struct {
	settings
	others []peer
	table  []row
}

func (b *bench) say(what, figure, anchor, target string, met bool) {
	b.table = append(b.table, row{what, figure, anchor, target, met})
	fmt.Fprintf(os.Stderr, "%s: %s (%s)\n", what, figure, anchor)
}

func (b *bench) path(parts ...string) string {
	return filepath.Join(append([]string{b.dir}, parts...)...)
}

// step runs one step in a process of its own.
func step(ctx context.Context, name string, args ...string) (measured, error) {
	self, err := os.Executable()
	if err != nil {
		return measured{}, err
	}
	cmd := exec.CommandContext(ctx, self, append([]string{"-step", name, "--"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return measured{}, fmt.Errorf("%s: %w", name, err)
	}
	var m measured
	if err := json.Unmarshal(out, &m); err != nil {
		return measured{}, fmt.Errorf("%s: %w", name, err)
	}
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		m.Memory = usage.Maxrss << 10
	}
	return m, nil
}

// other runs another program and then has what it wrote durable.
func other(ctx context.Context, made string, name string, args ...string) (measured, error) {
	return otherIn(ctx, "", nil, made, name, args...)
}

// otherIn is other in a folder, with variables.
func otherIn(ctx context.Context, dir string, env []string, made, name string, args ...string) (measured, error) {
	begun := time.Now()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env, cmd.Stderr = dir, env, os.Stderr
	if err := cmd.Run(); err != nil {
		return measured{}, fmt.Errorf("%s: %w", name, err)
	}
	if made != "" {
		if err := exec.CommandContext(ctx, "sync", "-f", made).Run(); err != nil {
			return measured{}, fmt.Errorf("sync: %w", err)
		}
	}
	return measured{Seconds: time.Since(begun).Seconds()}, nil
}

// median is the one in the middle, by time.
func median(all []measured) measured {
	slices.SortFunc(all, func(a, b measured) int {
		switch {
		case a.Seconds < b.Seconds:
			return -1
		case a.Seconds > b.Seconds:
			return 1
		}
		return 0
	})
	return all[len(all)/2]
}
