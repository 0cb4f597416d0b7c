package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(run()) }

func run() int {
	o, err := parse(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch {
	case o.summary != "":
		err = printReport(o.out, o.summary)
	case o.times:
		err = printTimes(o.out, o.cache)
	default:
		err = execute(ctx, o)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "muster: %v\n", err)
		return 1
	}
	return 0
}
