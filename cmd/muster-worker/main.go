// Command muster-worker is a member of the job that computes a stage of a pipeline
// where muster itself cannot run: in an image, whatever that has. It takes datums, or
// starts one member of a training stage. Package worker says what it does.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/muster-dev/muster/internal/foreman/worker"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	code := worker.Main(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
