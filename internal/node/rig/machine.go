package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// insideEnv marks the test process that runs in namespaces of its own.
const insideEnv = "MUSTER_TEST_INSIDE"

// Run runs a package's tests and returns the exit code for TestMain.
func Run(m *testing.M) int {
	defer removeShim()
	return m.Run()
}

// RunAlone is Run in a network and a mount namespace of the tests' own: that is
// the machine they see, and the real one is never touched. Without root it is
// Run, and the tests that need namespaces say so (Alone).
func RunAlone(m *testing.M) int {
	switch {
	case Alone():
		if err := furnish(); err != nil {
			fmt.Fprintln(os.Stderr, "making a machine for the tests:", err)
			return 1
		}
		return Run(m)
	case os.Geteuid() != 0:
		return Run(m)
	}
	return again()
}

// Alone says whether the tests run in namespaces of their own.
func Alone() bool { return os.Getenv(insideEnv) != "" }

// again gives the exit code of the tests inside. Stopped tests stop inside,
// too.
func again() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	command := exec.CommandContext(ctx, "/proc/self/exe", os.Args[1:]...)
	command.Env = append(os.Environ(), insideEnv+"=1")
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := command.Run(); err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return exit.ExitCode()
		}
		fmt.Fprintln(os.Stderr, "running the tests in namespaces of their own:", err)
		return 1
	}
	return 0
}

// furnish makes /run private and switches the loopback interface on.
func furnish() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("mounting /run: %w", err)
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("looking for the loopback interface: %w", err)
	}
	return netlink.LinkSetUp(lo)
}
