package hostport

import (
	"net"
	"os"
	"testing"
)

// TestServed: the port is this process's where its own listener gets the connections.
func TestServed(t *testing.T) {
	own := []int{os.Getpid()}
	others := []int{os.Getppid()}
	for _, c := range []struct{ network, address string }{{"tcp4", "127.0.0.1:0"}, {"tcp4", "0.0.0.0:0"}, {"tcp", "[::]:0"}} {
		listener, err := new(net.ListenConfig).Listen(t.Context(), c.network, c.address)
		if err != nil {
			t.Logf("%s: %v", c.address, err) // a machine without IPv6
			continue
		}
		at, ok := listener.Addr().(*net.TCPAddr)
		if !ok {
			t.Fatal(listener.Addr())
		}
		port := int32(at.Port)
		if !Served(port, own) || Served(port, others) || Served(port, nil) {
			t.Errorf("%s: served by this process %t, by another %t, by none %t", c.address, Served(port, own), Served(port, others), Served(port, nil))
		}
		if err := listener.Close(); err != nil {
			t.Fatal(err)
		}
		if Served(port, own) {
			t.Errorf("%s: it is closed, and served", c.address)
		}
	}
	// Another address of the loopback does not get the connections to 127.0.0.1.
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	if at, ok := listener.Addr().(*net.TCPAddr); !ok || Served(int32(at.Port), own) {
		t.Errorf("%s gets connections to 127.0.0.1", listener.Addr())
	}
}
