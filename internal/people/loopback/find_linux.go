package loopback

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// established is the state of an open connection in the kernel's lists.
const established = "01"

// find returns the user of the socket at client that is connected to server.
func find(client, server netip.AddrPort) (uint32, error) {
	uid, found, err := diagnose(client, server)
	if errors.Is(err, errNoDiag) {
		uid, found, err = list(client, server)
	}
	switch {
	case found || err != nil:
		return uid, err
	case client.Addr().IsLoopback():
		return 0, errHidden
	}
	return 0, ErrRemote
}

// list looks for the socket in all of the kernel's lists.
func list(client, server netip.AddrPort) (uint32, bool, error) {
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a kernel without IPv6
		}
		if err != nil {
			return 0, false, err
		}
		uid, found, err := search(f, client, server)
		if err = errors.Join(err, f.Close()); found || err != nil {
			return uid, found, err
		}
	}
	return 0, false, nil
}

// search looks for a socket in one of the kernel's lists.
func search(list io.Reader, client, server netip.AddrPort) (uid uint32, found bool, err error) {
	lines := bufio.NewScanner(list)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 || fields[0] == "sl" {
			continue
		}
		local, failed := parse(fields[1])
		if failed != nil {
			return 0, false, failed
		}
		if local != client {
			continue
		}
		remote, failed := parse(fields[2])
		if failed != nil {
			return 0, false, failed
		}
		if remote != server {
			continue
		}
		if fields[3] != established || fields[9] == "0" { // 0: no process holds it
			return 0, true, errGone
		}
		number, failed := strconv.ParseUint(fields[7], 10, 32)
		if failed != nil {
			return 0, true, fmt.Errorf("reading the uid %q of a socket: %w", fields[7], failed)
		}
		return uint32(number), true, nil
	}
	return 0, false, lines.Err()
}

// parse reads an address and port: words in the byte order of the machine, and the port in hexadecimal.
func parse(text string) (netip.AddrPort, error) {
	address, port, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(address)
	if err != nil || len(raw) != 4 && len(raw) != 16 {
		return netip.AddrPort{}, fmt.Errorf("the kernel lists a socket at %q", text)
	}
	for i := 0; i < len(raw); i += 4 {
		binary.NativeEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	number, err := strconv.ParseUint(port, 16, 16)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("the kernel lists a socket at %q", text)
	}
	a, _ := netip.AddrFromSlice(raw)
	return plain(netip.AddrPortFrom(a, uint16(number))), nil
}
