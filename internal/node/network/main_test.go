package network

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/rig"
)

// TestMain runs the tests on a machine of their own.
func TestMain(m *testing.M) {
	if state := os.Getenv(holdEnv); state != "" {
		if err := holdNetwork(state); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if address := os.Getenv(askEnv); address != "" {
		said, err := askFor("", address, time.Second)
		fmt.Println(said, err)
		os.Exit(0)
	}
	os.Exit(rig.RunAlone(m))
}

// machine skips a test where it cannot have a machine of its own.
func machine(t testing.TB) {
	t.Helper()
	if !rig.Alone() {
		t.Skip("a pod network needs root")
	}
}

var testServices = netip.MustParsePrefix("10.200.0.0/16")

func testOptions(t testing.TB) Options {
	t.Helper()
	machine(t)
	return Options{ServiceCIDR: testServices, StateDir: filepath.Join(t.TempDir(), "state")}
}

// open opens a network that is destroyed with the test.
func open(t testing.TB, options Options) *Network {
	t.Helper()
	n, err := Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Destroy(); err != nil && !errors.Is(err, errClosed) {
			t.Error(err)
		}
	})
	return n
}

func add(t testing.TB, n *Network, uid string) Pod {
	t.Helper()
	pod, err := n.AddPod(uid, Tenant{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// inside runs f in the namespace.
func inside(t testing.TB, path string, f func() error) {
	t.Helper()
	if err := inNamespace(path, func(*namespace) error { return f() }); err != nil {
		t.Error(err)
	}
}

// serve answers every TCP connection at the address in the namespace with the
// name and the address that the connection came from. An empty path is the
// machine.
func serve(t testing.TB, path, address, name string) netip.AddrPort {
	t.Helper()
	var listener net.Listener
	listen := func(*namespace) (err error) {
		listener, err = new(net.ListenConfig).Listen(t.Context(), "tcp4", address)
		return err
	}
	err := listen(nil)
	if path != "" {
		if err == nil {
			_ = listener.Close()
		}
		err = inNamespace(path, listen)
	}
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			from, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
			_, _ = io.WriteString(conn, name+" "+from)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-done })
	return netip.MustParseAddrPort(listener.Addr().String())
}

// serveUDP is the same for UDP.
func serveUDP(t testing.TB, path, address, name string) {
	t.Helper()
	var packets net.PacketConn
	err := inNamespace(path, func(*namespace) (err error) {
		packets, err = new(net.ListenConfig).ListenPacket(t.Context(), "udp4", address)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buffer := make([]byte, 512)
		for {
			_, from, err := packets.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = packets.WriteTo([]byte(name), from)
		}
	}()
	t.Cleanup(func() { _ = packets.Close(); <-done })
}

// ask connects from the namespace and gives what the other side says.
func ask(path, address string) (string, error) { return askFor(path, address, 2*time.Second) }

func askFor(path, address string, patience time.Duration) (string, error) {
	var said string
	call := func(*namespace) error {
		conn, err := (&net.Dialer{Timeout: patience}).Dial("tcp4", address)
		if err != nil {
			return err
		}
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			return err
		}
		raw, err := io.ReadAll(conn)
		said = string(raw)
		return errors.Join(err, conn.Close())
	}
	if path == "" {
		return said, call(nil)
	}
	return said, inNamespace(path, call)
}

// says fails unless the answer begins with what is wanted.
func says(t testing.TB, path, address, want string) {
	t.Helper()
	got, err := ask(path, address)
	if err != nil || !strings.HasPrefix(got, want) {
		t.Errorf("asking %s from %q gave %q, %v; want %q", address, filepath.Base(path), got, err, want)
	}
}

// refuses fails unless connecting is refused, and at once.
func refuses(t testing.TB, path, address string) {
	t.Helper()
	start := time.Now()
	_, err := ask(path, address)
	if !errors.Is(err, unix.ECONNREFUSED) || time.Since(start) > 500*time.Millisecond {
		t.Errorf("asking %s from %q gave %v after %v; want a refusal at once", address, filepath.Base(path), err, time.Since(start))
	}
}

// unreachable fails if connecting works. What works takes microseconds.
func unreachable(t testing.TB, path, address string) {
	t.Helper()
	if said, err := askFor(path, address, 150*time.Millisecond); err == nil {
		t.Errorf("asking %s from %q gave %q; nothing should be reachable there", address, filepath.Base(path), said)
	}
}
