package loopback

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// The kernel's sock_diag finds one socket by its two ends. A list of /proc costs milliseconds: the kernel
// walks its whole table of connections for each.
const (
	sockDiagByFamily = 20
	endsBytes        = 48 // struct inet_diag_sockid
	requestBytes     = 8 + endsBytes
	answerBytes      = 4 + endsBytes + 20
)

// errNoDiag means that sock_diag does not tell, as in a container without it.
var errNoDiag = errors.New("sock_diag does not answer")

// diagnose returns the user of the socket at client that is connected to server, and whether there is one
// on this machine. It asks for the server's own end first: if that is not found, sock_diag does not work.
func diagnose(client, server netip.AddrPort) (uid uint32, found bool, err error) {
	conn, err := netlink.Dial(unix.NETLINK_INET_DIAG, nil)
	if err != nil {
		return 0, false, fmt.Errorf("%w: %w", errNoDiag, err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	own, err := ask(conn, server, client)
	if err != nil {
		return 0, false, fmt.Errorf("%w: %w", errNoDiag, err)
	}
	if !own.is(server, client) {
		return 0, false, errNoDiag
	}
	s, err := ask(conn, client, server)
	switch {
	case errors.Is(err, unix.ENOENT):
		return 0, false, nil
	case err != nil:
		return 0, false, fmt.Errorf("%w: %w", errNoDiag, err)
	case !s.is(client, server): // a socket that listens there
		return 0, false, nil
	case s.state != unix.BPF_TCP_ESTABLISHED || s.inode == 0:
		return 0, true, errGone
	}
	return s.uid, true, nil
}

// socket is one that the kernel found.
type socket struct {
	state         uint8
	local, remote netip.AddrPort
	uid, inode    uint32
}

func (s socket) is(local, remote netip.AddrPort) bool { return s.local == local && s.remote == remote }

// ask finds the socket at local that is connected to remote.
func ask(conn *netlink.Conn, local, remote netip.AddrPort) (socket, error) {
	request := make([]byte, requestBytes)
	request[0], request[1] = unix.AF_INET6, unix.IPPROTO_TCP
	source, destination := local.Addr().AsSlice(), remote.Addr().AsSlice()
	if local.Addr().Is4() {
		request[0] = unix.AF_INET
	}
	binary.NativeEndian.PutUint32(request[4:], 1<<32-1) // all states
	ends := request[8:]
	binary.BigEndian.PutUint16(ends, local.Port())
	binary.BigEndian.PutUint16(ends[2:], remote.Port())
	copy(ends[4:20], source)
	copy(ends[20:36], destination)
	binary.NativeEndian.PutUint64(ends[40:], 1<<64-1) // no cookie
	answers, err := conn.Execute(netlink.Message{Header: netlink.Header{Type: sockDiagByFamily, Flags: netlink.Request}, Data: request})
	if err != nil {
		return socket{}, err
	}
	if len(answers) != 1 || len(answers[0].Data) < answerBytes {
		return socket{}, fmt.Errorf("the kernel gives %d answers", len(answers))
	}
	return decode(answers[0].Data), nil
}

func decode(answer []byte) socket {
	ends, rest := answer[4:4+endsBytes], answer[4+endsBytes:]
	end := func(port, address []byte) netip.AddrPort {
		if answer[0] == unix.AF_INET {
			address = address[:4]
		}
		a, _ := netip.AddrFromSlice(address[:min(len(address), 16)])
		return plain(netip.AddrPortFrom(a, binary.BigEndian.Uint16(port)))
	}
	return socket{state: answer[1], local: end(ends, ends[4:20]), remote: end(ends[2:], ends[20:36]),
		uid: binary.NativeEndian.Uint32(rest[12:]), inode: binary.NativeEndian.Uint32(rest[16:])}
}
