// Command muster-worker is what runs in images where muster itself cannot, whatever they
// have. It is a member of the job that computes a stage of a pipeline: it takes datums,
// or starts one member of a training stage, or is one of a Spark stage; or it serves,
// beside any member, data that is read as it is asked for. Where users share a machine it also
// looks, as the owner of a stage, at the programs that count for results. Packages worker, spark,
// ondemand and programs say what it does.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/muster-dev/muster/internal/agent/ondemand"
	"github.com/muster-dev/muster/internal/foreman/worker"
	"github.com/muster-dev/muster/internal/pipeline/programs"
	"github.com/muster-dev/muster/internal/spark"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string) int {
	verb := ""
	if len(args) > 0 {
		verb = args[0]
	}
	switch verb {
	case spark.Verb:
		return spark.Main(ctx, args[1:], os.TempDir(), os.Stdout, os.Stderr)
	case programs.Verb:
		return programs.Main(ctx, args[1:], os.Stdout)
	case ondemand.Verb:
		return ondemand.Main(ctx, args[1:], os.Stderr)
	}
	return worker.Main(ctx, args)
}
