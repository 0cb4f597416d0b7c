package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// TakenError is a port that another program has.
type TakenError struct {
	Address string
	Err     error
}

// Error implements error.
func (e *TakenError) Error() string { return fmt.Sprintf("%s is taken by another program", e.Address) }

// Unwrap returns the error of the kernel.
func (e *TakenError) Unwrap() error { return e.Err }

// wsaAddressInUse is EADDRINUSE of Windows.
const wsaAddressInUse = syscall.Errno(10048)

// Listen listens at an address, or, without one, at a port of both loopback addresses: browsers try
// [::1] first for localhost, and another user could listen there otherwise.
func Listen(ctx context.Context, address string, port int) (all []net.Listener, err error) {
	defer func() {
		if err != nil {
			for _, l := range all {
				err = errors.Join(err, l.Close())
			}
			all = nil
		}
	}()
	hosts := []string{address}
	if address == "" {
		hosts = []string{"127.0.0.1", "::1"}
	}
	for _, host := range hosts {
		at := net.JoinHostPort(host, strconv.Itoa(port))
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at)
		switch {
		case errors.Is(err, syscall.EADDRINUSE), errors.Is(err, wsaAddressInUse):
			return all, &TakenError{Address: at, Err: err}
		case host == "::1" && absent(err):
			continue
		case errors.Is(err, syscall.EACCES):
			return all, fmt.Errorf("listening at %s: only root may use a port below 1024; give another port, or let systemd open it (LISTEN_FDS)", at)
		case err != nil:
			return all, fmt.Errorf("listening: %w", err)
		}
		all = append(all, l)
		if port == 0 { // the same port at the other address
			port = l.Addr().(*net.TCPAddr).Port
		}
	}
	return all, nil
}

// absent reports whether the machine has no such address: then nobody can listen there.
func absent(err error) bool {
	return errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT) || errors.Is(err, syscall.EPROTONOSUPPORT)
}

// firstPassed is the first descriptor that systemd passes.
const firstPassed = 3

// Passed returns the TCP sockets that systemd has opened for this process and called console
// (FileDescriptorName=console), or all that it has opened if it calls none so. Nobody else can listen at
// their port while Muster is down. It removes the variables, so that no child process reads them.
func Passed() (all []net.Listener, err error) {
	pid, count, names := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS"), strings.Split(os.Getenv("LISTEN_FDNAMES"), ":")
	if pid != strconv.Itoa(os.Getpid()) {
		return nil, nil
	}
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		if err := os.Unsetenv(name); err != nil {
			return nil, fmt.Errorf("removing %s: %w", name, err)
		}
	}
	number, err := strconv.Atoi(count)
	if err != nil || number < 1 || number > 64 {
		return nil, fmt.Errorf("LISTEN_FDS=%q: systemd gives a number from 1", count)
	}
	for i := range number {
		fd := firstPassed + i
		closeOnExec(fd)
		f := os.NewFile(uintptr(fd), "socket "+strconv.Itoa(fd)+" of systemd")
		l, failed := net.FileListener(f)
		if err := errors.Join(failed, f.Close()); err != nil {
			return all, fmt.Errorf("taking socket %d of systemd: %w; it has to be a stream socket that listens (ListenStream=)", fd, err)
		}
		if _, tcp := l.(*net.TCPListener); !tcp || len(names) == number && names[i] != "console" && anyNamed(names) {
			continue
		}
		all = append(all, l)
	}
	return all, nil
}

func anyNamed(names []string) bool {
	for _, name := range names {
		if name == "console" {
			return true
		}
	}
	return false
}

// PortOf returns the port of a listener.
func PortOf(l net.Listener) int {
	if at, ok := l.Addr().(*net.TCPAddr); ok {
		return at.Port
	}
	return 0
}
