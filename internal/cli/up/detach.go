package up

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"github.com/muster-dev/muster/internal/cli/instance"
	"github.com/muster-dev/muster/internal/controlplane"
)

// maxLog is the size at which the log of earlier runs is set aside, in bytes.
const maxLog = 16 << 20

// background starts the same command in a session of its own, without
// --detach, and returns once it is ready.
func (o *options) background(ctx context.Context, home instance.Home, notes []string) error {
	// Nothing is started only to find that the folder is taken.
	release, err := controlplane.Lock(ctx, string(home))
	if err != nil {
		return taken(home, o.command, time.Now(), err)
	}
	release()
	for _, note := range notes {
		o.say("%s", note)
	}
	log, err := openLog(home)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this executable: %w", err)
	}
	// The child outlives this command, and so must not be bound to its context.
	child := exec.Command(self, foreground(os.Args[1:])...) //nolint:noctx // see above
	child.Stdout, child.Stderr = log, log
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := child.Start(); err != nil {
		return fmt.Errorf("starting muster in the background: %w", err)
	}
	ended := make(chan struct{})
	go func() { _ = child.Wait(); close(ended) }()
	s, err := o.waitReady(ctx, home, child.Process.Pid, ended)
	if err != nil {
		if ctx.Err() != nil {
			_ = child.Process.Signal(syscall.SIGTERM)
		}
		return err
	}
	o.welcome(home, s)
	return nil
}

// foreground is the command line without --detach.
func foreground(args []string) []string {
	return slices.DeleteFunc(slices.Clone(args), func(arg string) bool {
		return arg == "-d" || arg == "--detach" || arg == "--detach=true"
	})
}

// openLog opens the log to append to, and sets a large one aside.
func openLog(home instance.Home) (*os.File, error) {
	if info, err := os.Stat(home.Log()); err == nil && info.Size() > maxLog {
		if err := os.Rename(home.Log(), home.Log()+".1"); err != nil {
			return nil, fmt.Errorf("setting the old log aside: %w", err)
		}
	}
	log, err := os.OpenFile(home.Log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	return log, nil
}
