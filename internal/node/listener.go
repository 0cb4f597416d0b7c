package node

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// listeners are the ports of the machine on which somebody listens, with the
// inode of the socket.
type listeners map[port]string

// The states, in the kernel's tables, of sockets that have a port to
// themselves.
const (
	tcpListen = "0A"
	udpBound  = "07"
)

// readListeners reads the kernel's tables. What cannot be read is left out:
// then the program finds out itself that its port is taken.
func readListeners() listeners {
	out := listeners{}
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
				out[port{protocol: table.protocol, number: number}] = inode
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

// holder names the process that listens on a port; empty: none does.
func (l listeners) holder(protocol corev1.Protocol, number int32) string {
	inode, taken := l[port{protocol: protocol, number: number}]
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
