// Command muster-worker is a member of the job that computes a stage of a pipeline
// where muster itself cannot run: in an image, whatever that has. It takes datums, or
// starts one member of a training stage, or is one of a Spark stage. Packages worker and
// spark say what it does.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/muster-dev/muster/internal/foreman/worker"
	"github.com/muster-dev/muster/internal/spark"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string) int {
	if len(args) > 0 && args[0] == spark.Verb {
		return spark.Main(ctx, args[1:], os.TempDir(), os.Stdout, os.Stderr)
	}
	return worker.Main(ctx, args)
}
