package hostport

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
)

// Port is a port of the machine.
type Port struct {
	Protocol corev1.Protocol
	Number   int32
}

// Listeners maps the machine's ports on which a process listens to the inodes of the
// sockets.
type Listeners map[Port]string

// The states, in the kernel's tables, of sockets that listen on a port.
const (
	tcpListen = "0A"
	udpBound  = "07"
)

// AllFree returns true only if no process listens on any of these ports. It binds them
// without listening. That is much cheaper than the kernel's tables, which list all
// sockets of the machine.
func AllFree(ports []Port) bool {
	for _, p := range ports {
		if !bindable(p, syscall.AF_INET, &syscall.SockaddrInet4{Port: int(p.Number)}) || !bindable(p, syscall.AF_INET6, &syscall.SockaddrInet6{Port: int(p.Number)}) {
			return false
		}
	}
	return true
}

// bindable reports whether a process can bind a port on every address of a family. It
// returns true if the machine has no address of the family.
func bindable(p Port, family int, address syscall.Sockaddr) bool {
	kind := syscall.SOCK_STREAM
	if p.Protocol == corev1.ProtocolUDP {
		kind = syscall.SOCK_DGRAM
	}
	fd, err := syscall.Socket(family, kind|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return errors.Is(err, syscall.EAFNOSUPPORT)
	}
	defer func() { _ = syscall.Close(fd) }()
	if kind == syscall.SOCK_STREAM {
		// A connection in TIME_WAIT is not a listener.
		if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
			return false
		}
	}
	if family == syscall.AF_INET6 {
		if err := syscall.SetsockoptInt(fd, syscall.IPPROTO_IPV6, syscall.IPV6_V6ONLY, 1); err != nil {
			return false
		}
	}
	err = syscall.Bind(fd, address)
	return err == nil || errors.Is(err, syscall.EADDRNOTAVAIL)
}

// ReadListeners reads the kernel's tables of sockets. It skips a table that it cannot
// read: then the container's own bind fails if the port is in use.
func ReadListeners() Listeners {
	out := Listeners{}
	for _, table := range []struct {
		file     string
		protocol corev1.Protocol
		state    string
	}{
		{"/proc/net/tcp", corev1.ProtocolTCP, tcpListen}, {"/proc/net/tcp6", corev1.ProtocolTCP, tcpListen},
		{"/proc/net/udp", corev1.ProtocolUDP, udpBound}, {"/proc/net/udp6", corev1.ProtocolUDP, udpBound},
	} {
		f, err := os.Open(table.file)
		if err != nil {
			continue
		}
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			if number, inode, ok := parseSocket(lines.Text(), table.state); ok {
				out[Port{Protocol: table.protocol, Number: number}] = inode
			}
		}
		_ = f.Close()
	}
	return out
}

// parseSocket reads one line of a socket table.
func parseSocket(line, state string) (number int32, inode string, ok bool) {
	fields := strings.Fields(line)
	if len(fields) < 10 || fields[3] != state {
		return 0, "", false
	}
	_, hex, ok := strings.Cut(fields[1], ":")
	if !ok {
		return 0, "", false
	}
	value, err := strconv.ParseUint(hex, 16, 16)
	if err != nil {
		return 0, "", false
	}
	return int32(value), fields[9], true
}

// Holder names the process that listens on a port; empty if none listens.
func (l Listeners) Holder(protocol corev1.Protocol, number int32) string {
	inode, taken := l[Port{Protocol: protocol, Number: number}]
	if !taken {
		return ""
	}
	link := "socket:[" + inode + "]"
	files, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return "another process"
	}
	for _, file := range files {
		if target, err := os.Readlink(file); err != nil || target != link {
			continue
		}
		pid := strings.Split(file, "/")[2]
		name, err := os.ReadFile(filepath.Join("/proc", pid, "comm"))
		if err != nil {
			return "process " + pid
		}
		return fmt.Sprintf("process %s (%s)", pid, strings.TrimSpace(string(name)))
	}
	return "a process of another user"
}
