package hostport

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The addresses at which a listener gets the connections to 127.0.0.1, as the kernel's tables write
// them. The first that has a listener gets them all.
var loopback = []struct{ file, address string }{
	{"/proc/net/tcp", "0100007F"},
	{"/proc/net/tcp6", "0000000000000000FFFF00000100007F"},
	{"/proc/net/tcp", "00000000"},
	{"/proc/net/tcp6", "00000000000000000000000000000000"},
}

// Served reports whether these processes, and no other, get the connections to a TCP port at
// 127.0.0.1.
func Served(port int32, pids []int) bool {
	for _, at := range loopback {
		links := sockets(at.file, fmt.Sprintf("%s:%04X", at.address, port))
		if len(links) == 0 {
			continue
		}
		for _, pid := range pids {
			files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid)) // the pattern is well formed
			for _, file := range files {
				if link, err := os.Readlink(file); err == nil {
					links = slices.DeleteFunc(links, func(l string) bool { return l == link })
				}
			}
		}
		return len(links) == 0
	}
	return false
}

// sockets are the listening sockets of an address in a table, as the links of file descriptors name
// them.
func sockets(table, address string) (links []string) {
	f, err := os.Open(table)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) >= 10 && fields[3] == tcpListen && fields[1] == address {
			links = append(links, "socket:["+fields[9]+"]")
		}
	}
	return links
}
