package hostport

import (
	"net"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestAllFree listens on ports in every way. AllFree must return false for each port that
// the kernel's tables list.
func TestAllFree(t *testing.T) {
	for _, tt := range []struct {
		name, network, address string
	}{
		{"every address", "tcp", ":0"},
		{"every address of IPv4", "tcp4", "0.0.0.0:0"},
		{"one address of IPv4", "tcp4", "127.0.0.1:0"},
		{"every address of IPv6", "tcp6", "[::]:0"},
		{"one address of IPv6", "tcp6", "[::1]:0"},
		{"UDP, every address", "udp", ":0"},
		{"UDP, one address", "udp4", "127.0.0.1:0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, release := hold(t, tt.network, tt.address)
			if AllFree([]Port{p}) {
				t.Errorf("%v passes for free", p)
			}
			if _, listed := ReadListeners()[p]; !listed {
				t.Errorf("%v is not in the tables", p)
			}
			release()
			if !AllFree([]Port{p}) {
				t.Errorf("%v was let go and does not pass for free", p)
			}
		})
	}
	if !AllFree(nil) {
		t.Error("no ports are taken")
	}
}

// hold takes a port that the system chooses.
func hold(t *testing.T, network, address string) (Port, func()) {
	t.Helper()
	if network[:3] == "udp" {
		c, err := net.ListenPacket(network, address)
		if err != nil {
			t.Fatal(err)
		}
		return Port{Protocol: corev1.ProtocolUDP, Number: int32(c.LocalAddr().(*net.UDPAddr).Port)}, func() { _ = c.Close() }
	}
	l, err := net.Listen(network, address)
	if err != nil {
		if network == "tcp6" {
			t.Skipf("this machine has no IPv6: %v", err)
		}
		t.Fatal(err)
	}
	return Port{Protocol: corev1.ProtocolTCP, Number: int32(l.Addr().(*net.TCPAddr).Port)}, func() { _ = l.Close() }
}

func TestParseSocket(t *testing.T) {
	const listen = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12345 1 0000000000000000 100 0 0 10 0"
	if number, inode, ok := parseSocket(listen, tcpListen); !ok || number != 8080 || inode != "12345" {
		t.Errorf("got %d %s %v", number, inode, ok)
	}
	if _, _, ok := parseSocket("  sl  local_address rem_address   st", tcpListen); ok {
		t.Error("the heading is no socket")
	}
}
