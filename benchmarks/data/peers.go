package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// peer is another program that keeps versions of files. Its repository is in a
// folder of its own below b.dir, its data what all others have, too.
type peer struct {
	name    string
	program string
	env     []string
	// begin makes an empty repository, outside of what is measured.
	begin [][]string
	// put stores the folder, look does it and reads every file.
	put, look []string
	// made is what has to be on disk afterwards, and goes before the next run.
	made []string
}

// peers are those that hack/bench-peers installed. Each is used as its
// documentation shows it, without its own waiting for the disk, which follows.
func (b *bench) peers(many string) []peer {
	repository, cache := b.path("restic"), b.path("restic-cache")
	all := []peer{{
		name: "restic", program: filepath.Join(b.programs, "restic"),
		env:   []string{"RESTIC_PASSWORD=bench", "RESTIC_REPOSITORY=" + repository, "RESTIC_CACHE_DIR=" + cache},
		begin: [][]string{{"init", "--quiet"}},
		put:   []string{"backup", "--quiet", many},
		look:  []string{"backup", "--quiet", "--force", many},
		made:  []string{repository, cache},
	}, {
		name: "DVC", program: filepath.Join(b.programs, "dvc", "bin", "dvc"),
		env:   []string{"DVC_SITE_CACHE_DIR=" + b.path("dvc-site"), "DVC_NO_ANALYTICS=1"},
		begin: [][]string{{"init", "--no-scm", "--quiet"}, {"config", "core.check_update", "false"}},
		put:   []string{"add", "--quiet", many},
		made:  []string{b.path(".dvc"), b.path("dvc-site"), b.path(".dvcignore"), many + ".dvc"},
	}}
	var there []peer
	for _, p := range all {
		if _, err := os.Stat(p.program); err != nil {
			fmt.Fprintf(os.Stderr, "%s is not compared with: %v (make bench-data installs it)\n", p.name, err)
			continue
		}
		there = append(there, p)
	}
	return there
}

// run runs the program, until what it made is on disk.
func (p peer) run(ctx context.Context, dir string, args ...string) (measured, error) {
	return otherIn(ctx, dir, append(os.Environ(), p.env...), dir, p.program, args...)
}

// anew makes an empty repository.
func (p peer) anew(ctx context.Context, dir string) error {
	var errs []error
	for _, path := range p.made {
		errs = append(errs, os.RemoveAll(path))
	}
	for _, args := range p.begin {
		if errors.Join(errs...) == nil {
			_, err := p.run(ctx, dir, args...)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// against measures the same thing in turns with each peer, and says how the two
// compare.
func (b *bench) against(ctx context.Context, what string, prepare func(peer) error, ours func() (measured, error), args func(peer) []string, rate func(measured) string) error {
	for _, p := range b.others {
		if args(p) == nil {
			continue
		}
		a, z, err := b.pair(ctx, func() error { return prepare(p) }, ours, func() (measured, error) { return p.run(ctx, b.dir, args(p)...) })
		if err != nil {
			return fmt.Errorf("beside %s: %w", p.name, err)
		}
		b.say(what+" beside "+p.name, fmt.Sprintf("%s, %.1f x", rate(a), z.Seconds/a.Seconds), p.name+" "+rate(z), ">= 3 x", z.Seconds/a.Seconds >= 3)
	}
	return nil
}

// versions is what was compared with.
func (b *bench) versions(ctx context.Context) string {
	var names []string
	for _, p := range b.others {
		out, err := exec.CommandContext(ctx, p.program, "version").Output()
		if err != nil {
			continue
		}
		line, _, _ := strings.Cut(string(out), "\n")
		names = append(names, line)
	}
	return strings.Join(names, ", ")
}
