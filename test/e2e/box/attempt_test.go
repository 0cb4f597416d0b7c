//go:build e2e

package box

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// attempt does what words say, as the user who started this program, and prints "crossed" if it worked.
func attempt(words string, args []string) int {
	var err error
	switch words {
	case "trace":
		err = trace(args[0])
	case "memory":
		err = memory(args[0])
	case "descriptor":
		err = descriptor(args[0])
	case "signal":
		err = signal(args[0])
	case "connect":
		err = connect(args[0])
	case "listen":
		err = listen(args[0])
	case "submit":
		if err = submit(args[0], args[1]); err == nil {
			return 0
		}
	default:
		fmt.Fprintf(os.Stderr, "%q is no attempt\n", words)
		return 2
	}
	if err != nil {
		fmt.Println("refused:", err)
		return 1
	}
	fmt.Println("crossed")
	return 0
}

// trace attaches to a process as a debugger does.
func trace(pid string) error {
	n, err := strconv.Atoi(pid)
	if err != nil {
		return err
	}
	if err := unix.PtraceAttach(n); err != nil {
		return err
	}
	return unix.PtraceDetach(n)
}

// memory reads the memory of a process.
func memory(pid string) error {
	f, err := os.Open("/proc/" + pid + "/mem")
	if err != nil {
		return err
	}
	return f.Close()
}

// descriptor takes a file descriptor of a process.
func descriptor(pid string) error {
	n, err := strconv.Atoi(pid)
	if err != nil {
		return err
	}
	fd, err := unix.PidfdOpen(n, 0)
	if err != nil {
		return err
	}
	taken, err := unix.PidfdGetfd(fd, 1, 0)
	if err != nil {
		return err
	}
	return unix.Close(taken)
}

// signal sends SIGUSR1.
func signal(pid string) error {
	n, err := strconv.Atoi(pid)
	if err != nil {
		return err
	}
	return unix.Kill(n, unix.SIGUSR1)
}

// connect connects to a TCP address.
func connect(address string) error {
	conn, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return err
	}
	return conn.Close()
}

// listen serves a Unix socket, and says when it has received something.
func listen(path string) error {
	l, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	if err := os.Chmod(path, 0o666); err != nil {
		return err
	}
	fmt.Println("listens")
	conn, err := l.Accept()
	if err != nil {
		return err
	}
	if n, err := conn.Read(make([]byte, 1)); n == 0 {
		return err
	}
	fmt.Println("received")
	return nil
}
