package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"slices"
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
	return again(unix.CLONE_NEWNET | unix.CLONE_NEWNS)
}

// RunMounting is Run in a mount namespace of the tests' own, in which they may
// mount whoever runs them: without root it is in a user namespace, too.
func RunMounting(m *testing.M) int {
	if !Alone() {
		return again(unix.CLONE_NEWNS)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		fmt.Fprintln(os.Stderr, "making mounts private:", err)
		return 1
	}
	return Run(m)
}

// testAddress is an address for documentation: nobody has it.
const testAddress = "192.0.2.1/32"

// RunReachable runs tests on a machine that has an address besides its loopback:
// this one if it has, else in a network namespace with such an address. What the
// tests start runs there, too, and may itself begin here.
func RunReachable(run func() int) int {
	if reachable() {
		return run()
	}
	if !Alone() {
		return again(unix.CLONE_NEWNET)
	}
	if err := beReachable(); err != nil {
		fmt.Fprintln(os.Stderr, "giving the tests an address:", err)
		return 1
	}
	return run()
}

// reachable reports that the machine has an address besides its loopback.
func reachable() bool {
	addresses, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(addresses, func(a net.Addr) bool {
		n, is := a.(*net.IPNet)
		return is && n.IP.To4() != nil && n.IP.IsGlobalUnicast()
	})
}

func beReachable() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("looking for the loopback interface: %w", err)
	}
	address, err := netlink.ParseAddr(testAddress)
	if err != nil {
		return err
	}
	return errors.Join(netlink.LinkSetUp(lo), netlink.AddrAdd(lo, address))
}

// Alone says whether the tests run in namespaces of their own.
func Alone() bool { return os.Getenv(insideEnv) != "" }

// again gives the exit code of the tests inside new namespaces. Stopped tests stop
// inside, too.
func again(namespaces uintptr) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := inside(ctx, &syscall.SysProcAttr{Cloneflags: namespaces})
	if errors.Is(err, unix.EPERM) { // without root, or as one who may do nothing
		one := func(id int) []syscall.SysProcIDMap { return []syscall.SysProcIDMap{{HostID: id, Size: 1}} }
		err = inside(ctx, &syscall.SysProcAttr{
			Cloneflags: namespaces | unix.CLONE_NEWUSER, UidMappings: one(os.Geteuid()), GidMappings: one(os.Getegid()),
		})
	}
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return exit.ExitCode()
		}
		fmt.Fprintln(os.Stderr, "running the tests in namespaces of their own:", err)
		return 1
	}
	return 0
}

// inside runs the tests in the namespaces that are asked for.
func inside(ctx context.Context, how *syscall.SysProcAttr) error {
	command := exec.CommandContext(ctx, "/proc/self/exe", os.Args[1:]...)
	command.Env = append(os.Environ(), insideEnv+"=1")
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	how.Pdeathsig = syscall.SIGKILL
	command.SysProcAttr = how
	return command.Run()
}

// furnish makes /run private, for temporary files of tests, too, and switches the loopback interface
// on. Containers of the isolated tier do not see the machine's /tmp.
func furnish() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("mounting /run: %w", err)
	}
	const folder = "/run/tests"
	if err := errors.Join(os.Mkdir(folder, 0o755), os.Setenv("TMPDIR", folder)); err != nil {
		return fmt.Errorf("making a folder for temporary files: %w", err)
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("looking for the loopback interface: %w", err)
	}
	return netlink.LinkSetUp(lo)
}
