package network

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// listenUDP opens a socket in the namespace; an empty path is the machine.
func listenUDP(t *testing.T, path, address string) net.PacketConn {
	t.Helper()
	var packets net.PacketConn
	listen := func(*namespace) (err error) {
		packets, err = new(net.ListenConfig).ListenPacket(t.Context(), "udp4", address)
		return err
	}
	where := func(f func(*namespace) error) error { return inNamespace(path, f) }
	if path == "" {
		where = func(f func(*namespace) error) error { return f(nil) }
	}
	err := where(listen)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = packets.Close() })
	return packets
}

// receive gives the text of the next packet, or an error after a while.
func receive(packets net.PacketConn) (string, error) {
	if err := packets.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return "", err
	}
	buffer := make([]byte, 64)
	n, _, err := packets.ReadFrom(buffer)
	return string(buffer[:n]), err
}

// sendAs sends a UDP packet from the calling thread's namespace with a source
// address of choice, as root in a pod can.
func sendAs(source netip.Addr, to netip.AddrPort, text string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return err
	}
	packet := make([]byte, 28, 28+len(text))
	packet[0], packet[8], packet[9] = 0x45, 64, unix.IPPROTO_UDP // 20 bytes of header, time to live, protocol
	copy(packet[12:], source.AsSlice())
	copy(packet[16:], to.Addr().AsSlice())
	binary.BigEndian.PutUint16(packet[20:], 4000)
	binary.BigEndian.PutUint16(packet[22:], to.Port())
	binary.BigEndian.PutUint16(packet[24:], uint16(8+len(text))) // no check sum: it is optional
	packet = append(packet, text...)
	return errors.Join(unix.Sendto(fd, packet, 0, &unix.SockaddrInet4{Addr: to.Addr().As4()}), unix.Close(fd))
}

func TestPodsSendAsThemselvesOnly(t *testing.T) {
	out := world(t)
	bridgeNetfilter(t, func(t *testing.T) {
		options := testOptions(t)
		first, err := Open(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		a, b, c := add(t, first, "a"), add(t, first, "b"), add(t, first, "c")
		targets := map[string]struct {
			packets net.PacketConn
			at      netip.AddrPort
		}{
			"a pod":       {listenUDP(t, c.NetNS, "0.0.0.0:7000"), netip.AddrPortFrom(c.IP, 7000)},
			"the machine": {listenUDP(t, "", "0.0.0.0:7001"), netip.AddrPortFrom(first.Gateway(), 7001)},
			"the world":   {listenUDP(t, out, "0.0.0.0:7002"), netip.MustParseAddrPort("198.51.100.1:7002")},
		}
		try := func(t *testing.T, n *Network) {
			t.Helper()
			for what, to := range targets {
				inside(t, a.NetNS, func() error {
					return errors.Join(
						sendAs(b.IP, to.at, "as another pod"),
						sendAs(n.Gateway(), to.at, "as the gateway"),
						sendAs(netip.MustParseAddr("192.0.2.1"), to.at, "as a stranger"),
						sendAs(a.IP, to.at, "as itself"))
				})
				// What is sent last and arrives first tells that the rest was
				// dropped.
				if got, err := receive(to.packets); got != "as itself" {
					t.Errorf("the first packet for %s was sent %q, %v", what, got, err)
				}
			}
		}
		t.Run("made", func(t *testing.T) { try(t, first) })
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		n := open(t, options)
		t.Run("adopted", func(t *testing.T) { try(t, n) })

		t.Run("with another's hardware address", func(t *testing.T) {
			inside(t, a.NetNS, func() error {
				link, err := netlink.LinkByName(podLink)
				if err != nil {
					return err
				}
				sendWith := func(hardware, source netip.Addr, text string) error {
					return errors.Join(netlink.LinkSetHardwareAddr(link, hardwareAddrOf(hardware)),
						netlink.NeighSet(neighbour(link.Attrs().Index, n.Gateway())), // the kernel has just forgotten it
						sendAs(source, targets["a pod"].at, text))
				}
				return errors.Join(sendWith(b.IP, b.IP, "as another pod"), sendWith(b.IP, a.IP, "as half another pod"), sendWith(a.IP, a.IP, "as itself"))
			})
			if got, err := receive(targets["a pod"].packets); got != "as itself" {
				t.Errorf("the first packet was sent %q, %v", got, err)
			}
		})
		// Nor has the bridge learned a wrong way to b.
		serve(t, b.NetNS, "0.0.0.0:8080", "b")
		says(t, "", fmt.Sprint(b.IP, ":8080"), "b")
		if err := n.RemovePod("a"); err != nil {
			t.Fatal(err)
		}
		d := add(t, n, "d")
		says(t, d.NetNS, fmt.Sprint(b.IP, ":8080"), "b")
	})
}

// TestNoRedirects: the gateway sees pods reach each other by way of it although
// they are on one wire, and would tell them.
func TestNoRedirects(t *testing.T) {
	bridgeNetfilter(t, func(t *testing.T) {
		// Addresses of its own: the kernel rarely tells one whom it has told
		// lately, and remembers that beyond the network.
		options := testOptions(t)
		options.PodCIDR = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 100, byte(rand.IntN(256)), 0}), 24)
		n := open(t, options)
		a, b, c := add(t, n, "a"), add(t, n, "b"), add(t, n, "c")
		// firstWord sends from the pod to a port where nobody listens, and
		// gives the type of the first ICMP message that comes back.
		firstWord := func(from Pod) (kind byte) {
			t.Helper()
			inside(t, from.NetNS, func() error {
				messages, err := net.ListenPacket("ip4:icmp", "0.0.0.0")
				if err != nil {
					return err
				}
				defer func() { _ = messages.Close() }()
				if err := errors.Join(sendAs(from.IP, netip.AddrPortFrom(b.IP, 9), "?"), messages.SetReadDeadline(time.Now().Add(5*time.Second))); err != nil {
					return err
				}
				buffer := make([]byte, 128)
				size, _, err := messages.ReadFrom(buffer)
				if err == nil && size > 0 {
					kind = buffer[0]
				}
				return err
			})
			return kind
		}
		const unreachable = 3
		if got := firstWord(a); got != unreachable {
			t.Errorf("the first ICMP message was of type %d, want %d", got, unreachable)
		}
		// Without the rules, it does tell; the pod does not listen.
		if err := n.firewall.remove(); err != nil {
			t.Fatal(err)
		}
		if got := firstWord(c); got != icmpRedirect {
			t.Errorf("without rules, the first ICMP message was of type %d, want %d: this test proves nothing", got, icmpRedirect)
		}
		inside(t, c.NetNS, func() error {
			routes, err := netlink.RouteGet(b.IP.AsSlice())
			if err == nil && (len(routes) != 1 || !routes[0].Gw.Equal(n.Gateway().AsSlice())) {
				err = fmt.Errorf("after a redirect, the way to the other pod is %v", routes)
			}
			return err
		})
	})
}
