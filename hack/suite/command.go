package main

import (
	"context"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// command returns a command in a process group of its own, whose processes are asked to end
// with ctx and killed 30 seconds later. Errors of the command go to standard error.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	return cmd
}
