package controlplane

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// serviceRanges are tried in this order: what Kubernetes people expect first,
// then others that home and office networks rarely use.
var serviceRanges = []string{
	"10.96.0.0/16", "10.112.0.0/16", "10.208.0.0/16", "172.29.0.0/16", "172.22.0.0/16", "192.168.224.0/20",
}

// chooseServiceRange returns the first candidate that overlaps none of the
// machine's own ranges and that claim claims. If other control planes have claimed all
// candidates without an overlap, it returns the first of them: a claim alone blocks no
// address.
func chooseServiceRange(candidates []string, used []netip.Prefix, claim func(string) bool) (string, error) {
	free := ""
	for _, candidate := range candidates {
		prefix, err := netip.ParsePrefix(candidate)
		if err != nil {
			return "", fmt.Errorf("reading service range: %w", err)
		}
		if overlap(prefix, used) != nil {
			continue
		}
		if claim(candidate) {
			return candidate, nil
		}
		if free == "" {
			free = candidate
		}
	}
	if free != "" {
		return free, nil
	}
	return "", fmt.Errorf("every range that Services could have (%s) overlaps a route of this machine: choose a free private range in the configuration", strings.Join(candidates, ", "))
}

func overlap(prefix netip.Prefix, used []netip.Prefix) *netip.Prefix {
	for _, other := range used {
		if prefix.Overlaps(other) {
			return &other
		}
	}
	return nil
}

// machineRanges lists the IPv4 ranges that this machine has routes to, the
// default route apart.
func machineRanges() ([]netip.Prefix, error) {
	f, err := os.Open("/proc/net/route")
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // No IPv4: nothing to collide with.
	}
	if err != nil {
		return nil, fmt.Errorf("reading this machine's routes: %w", err)
	}
	defer func() { _ = f.Close() }()
	return parseRoutes(f)
}

// parseRoutes reads the format of /proc/net/route: columns, of which the second
// is the destination and the eighth the mask, as numbers in host byte order.
func parseRoutes(r io.Reader) ([]netip.Prefix, error) {
	var ranges []netip.Prefix
	scanner := bufio.NewScanner(r)
	for scanner.Scan() {
		fields := strings.Fields(scanner.Text())
		if len(fields) < 8 || fields[0] == "Iface" {
			continue
		}
		destination, err := hexNumber(fields[1])
		if err != nil {
			return nil, fmt.Errorf("reading this machine's routes: %w", err)
		}
		mask, err := hexNumber(fields[7])
		if err != nil {
			return nil, fmt.Errorf("reading this machine's routes: %w", err)
		}
		if mask == 0 {
			continue
		}
		var address [4]byte
		binary.NativeEndian.PutUint32(address[:], destination)
		ranges = append(ranges, netip.PrefixFrom(netip.AddrFrom4(address), bits.OnesCount32(mask)))
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("reading this machine's routes: %w", err)
	}
	return ranges, nil
}

func hexNumber(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 16, 32)
	return uint32(n), err
}

// firstAddress is the first usable address of a range: the one that the
// Service "kubernetes" gets.
func firstAddress(serviceRange string) (net.IP, error) {
	prefix, err := netip.ParsePrefix(serviceRange)
	if err != nil {
		return nil, fmt.Errorf("reading service range: %w", err)
	}
	return net.IP(prefix.Masked().Addr().Next().AsSlice()), nil
}

// listen binds the API server's port on 127.0.0.1: the one asked for, else the
// one used last time, else the default, else any. note tells why it is not the
// expected one; empty if it is.
func listen(ctx context.Context, asked, last int) (l *net.TCPListener, note string, err error) {
	if asked > 0 {
		l, err := bind(ctx, asked)
		if errors.Is(err, unix.EADDRINUSE) {
			return nil, "", fmt.Errorf("port %d on 127.0.0.1 is taken by %s: stop that, or choose another port (0 finds a free one)", asked, portOwner(asked))
		}
		return l, "", err
	}
	candidates := []int{DefaultPort, 0}
	if last > 0 && last != DefaultPort {
		candidates = []int{last, DefaultPort, 0}
	}
	for _, port := range candidates {
		l, err = bind(ctx, port)
		if !errors.Is(err, unix.EADDRINUSE) {
			break
		}
	}
	if err != nil {
		return nil, "", err
	}
	if expected, got := candidates[0], l.Addr().(*net.TCPAddr).Port; got != expected {
		note = fmt.Sprintf("port %d is taken by %s; the API server listens on port %d instead", expected, portOwner(expected), got)
	}
	return l, note, nil
}

func bind(ctx context.Context, port int) (*net.TCPListener, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if errors.Is(err, os.ErrPermission) {
		return nil, fmt.Errorf("listening on port %d: %w: ports below 1024 are for root: choose a higher one", port, err)
	}
	if err != nil {
		return nil, fmt.Errorf("listening on port %d: %w", port, err)
	}
	return l.(*net.TCPListener), nil
}

// portOwner says in words who listens on a TCP port of this machine.
func portOwner(port int) string {
	inodes := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		listenerInodes(table, port, inodes)
	}
	links, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil || len(inodes) == 0 {
		return "another process"
	}
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil || !inodes[target] {
			continue
		}
		pid := strings.Split(link, "/")[2]
		name, err := os.ReadFile(filepath.Join("/proc", pid, "comm"))
		if err != nil {
			return "process " + pid
		}
		return fmt.Sprintf("process %s (%s)", pid, strings.TrimSpace(string(name)))
	}
	return fmt.Sprintf("a process of another user (`sudo ss -ltnp 'sport = :%d'` names it)", port)
}

// listenerInodes adds "socket:[inode]" of each socket that listens on port.
func listenerInodes(table string, port int, into map[string]bool) {
	const listening = "0A"
	f, err := os.Open(table)
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }()
	scanner := bufio.NewScanner(f)
	for scanner.Scan() {
		fields := strings.Fields(scanner.Text())
		if len(fields) < 10 || fields[3] != listening {
			continue
		}
		_, local, found := strings.Cut(fields[1], ":")
		number, err := hex.DecodeString(local)
		if found && err == nil && len(number) == 2 && int(binary.BigEndian.Uint16(number)) == port {
			into["socket:["+fields[9]+"]"] = true
		}
	}
}
