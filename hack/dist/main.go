package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/muster-dev/muster/hack/dist/internal/revision"
)

func main() { os.Exit(code()) }

func code() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "muster: dist:", err)
		return 1
	}
	return 0
}

func run(ctx context.Context, args []string, say io.Writer) error {
	flags := flag.NewFlagSet("dist", flag.ContinueOnError)
	only := flags.String("only", "", "parts to make, with commas between them (default: all)")
	out := flags.String("out", "dist", "the folder to write to")
	list := flags.Bool("list", false, "print the parts")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *list {
		return printParts(say)
	}
	chosen, err := choose(*only)
	if err != nil {
		return err
	}
	root, err := filepath.Abs(".")
	if err != nil {
		return fmt.Errorf("finding the checkout: %w", err)
	}
	if _, err := os.Stat(filepath.Join(root, "hack", "dist")); err != nil {
		return fmt.Errorf("finding the checkout: run this in its root: %w", err)
	}
	version, err := revision.Of(ctx, root)
	if err != nil {
		return err
	}
	m, err := newMaker(root, *out, version, say)
	if err != nil {
		return err
	}
	return m.make(ctx, chosen)
}

func printParts(say io.Writer) error {
	for _, part := range parts {
		if _, err := fmt.Fprintf(say, "%-20s %s\n", part.name, part.about); err != nil {
			return err
		}
	}
	return nil
}

// choose returns the parts with these names, in the order in which they are made.
func choose(only string) ([]part, error) {
	if only == "" {
		return slices.DeleteFunc(slices.Clone(parts), func(p part) bool { return p.asked }), nil
	}
	names := strings.Split(only, ",")
	var chosen []part
	for _, part := range parts {
		if at := slices.Index(names, part.name); at >= 0 {
			chosen = append(chosen, part)
			names = slices.Delete(names, at, at+1)
		}
	}
	if len(names) > 0 {
		return nil, errors.New("there is no part " + strings.Join(names, ", ") + "; `go run ./hack/dist -list` prints them")
	}
	return chosen, nil
}
