package loopback

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain runs, when asked to, the other user of TestUsers.
func TestMain(m *testing.M) {
	if address := os.Getenv("LOOPBACK_TEST_ASK"); address != "" {
		if err := get(address, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func get(address string, out io.Writer) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, answer.Body)
	return errors.Join(err, answer.Body.Close())
}

// serve answers each request with the uid of its connection.
func serve(t *testing.T, address string) (string, bool) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	if err != nil {
		return "", false
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		uid, err := UID(r.Context())
		_, _ = fmt.Fprintf(w, "%d %v", uid, err)
	}))
	_ = s.Listener.Close()
	s.Listener, s.Config.ConnContext = l, Context
	s.Start()
	t.Cleanup(s.Close)
	return l.Addr().String(), true
}

// TestUsers: a process of this user and processes of two others, by IPv4, by IPv6, and by IPv4 to a
// server of both.
func TestUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to start processes of other users")
	}
	program := "/proc/self/exe"
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", "[::]:0"} {
		at, ok := serve(t, address)
		if !ok {
			t.Logf("no IPv6 here: %s", address)
			continue
		}
		if _, port, _ := net.SplitHostPort(at); address == "[::]:0" {
			at = "127.0.0.1:" + port
		}
		for _, uid := range []uint32{0, 61001, 61002} {
			cmd := exec.CommandContext(t.Context(), program)
			cmd.Env = []string{"LOOPBACK_TEST_ASK=" + at}
			cmd.Dir = "/"
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
			out, err := cmd.CombinedOutput()
			if want := fmt.Sprintf("%d <nil>", uid); err != nil || string(out) != want {
				t.Errorf("%s, uid %d: %q (%v), want %q", at, uid, out, err, want)
			}
		}
	}
}

// TestClosed: a process that has closed its end, before the server asks, is nobody, not root.
func TestClosed(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	client, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(client, "GET / HTTP/1.1\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ctx := Context(t.Context(), conn)
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
		t.Fatal(err)
	}
	if uid, err := UID(ctx); !errors.Is(err, errGone) && !errors.Is(err, errHidden) {
		t.Errorf("uid %d, error %v", uid, err)
	}
}

// TestSearch: rows of the kernel's lists.
func TestSearch(t *testing.T) {
	const head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
	row := func(local, remote, state, uid, inode string) string {
		return "   0: " + local + " " + remote + " " + state + " 00000000:00000000 00:00000000 00000000 " + uid + " 0 " + inode + " 1 0 20 0 0 10 -1\n"
	}
	client, server := netip.MustParseAddrPort("127.0.0.1:40000"), netip.MustParseAddrPort("127.0.0.1:6490")
	own := row("0100007F:195A", "0100007F:9C40", "01", "0", "77") // the server's own end
	for name, c := range map[string]struct {
		text  string
		uid   uint32
		found bool
		err   error
	}{
		"established":  {own + row("0100007F:9C40", "0100007F:195A", "01", "1000", "78"), 1000, true, nil},
		"mapped":       {own + row("0000000000000000FFFF00000100007F:9C40", "0000000000000000FFFF00000100007F:195A", "01", "1000", "78"), 1000, true, nil},
		"orphan":       {row("0100007F:9C40", "0100007F:195A", "01", "0", "0"), 0, true, errGone},
		"half closed":  {row("0100007F:9C40", "0100007F:195A", "05", "1000", "78"), 0, true, errGone},
		"time wait":    {row("0100007F:9C40", "0100007F:195A", "06", "0", "0"), 0, true, errGone},
		"another port": {row("0100007F:9C41", "0100007F:195A", "01", "1000", "78"), 0, false, nil},
		"elsewhere":    {row("0100007F:9C40", "0100007F:195B", "01", "1000", "78"), 0, false, nil},
		"nothing":      {own, 0, false, nil},
	} {
		uid, found, err := search(strings.NewReader(head+c.text), client, server)
		if uid != c.uid || found != c.found || !errors.Is(err, c.err) {
			t.Errorf("%s: uid %d, found %t, error %v", name, uid, found, err)
		}
	}
	if _, _, err := search(strings.NewReader(head+row("0100:9C40", "0100007F:195A", "01", "1", "1")), client, server); err == nil {
		t.Error("half an address was read")
	}
}

// TestTwoWays: sock_diag and the lists agree about the two ends of a connection, and about one that there
// is not.
func TestTwoWays(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", "[::]:0"} {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
		if err != nil {
			t.Logf("no IPv6 here: %v", err)
			continue
		}
		client, server := connect(t, l)
		unused := netip.AddrPortFrom(client.Addr(), 1)
		for name, c := range map[string]struct {
			local, remote netip.AddrPort
			found         bool
		}{"client": {client, server, true}, "server": {server, client, true}, "other": {unused, server, false}, "listener": {server, unused, false}} {
			uid, found, err := list(c.local, c.remote)
			if err != nil || found != c.found || found && int(uid) != os.Geteuid() {
				t.Errorf("%s, %s by the lists: uid %d, found %t, error %v", address, name, uid, found, err)
			}
			if name == "other" || name == "listener" {
				continue // its server's end is not there, so sock_diag counts as absent
			}
			uid, found, err = diagnose(c.local, c.remote)
			if errors.Is(err, errNoDiag) {
				t.Logf("%s: %v", address, err)
				continue
			}
			if err != nil || found != c.found || int(uid) != os.Geteuid() {
				t.Errorf("%s, %s by sock_diag: uid %d, found %t, error %v", address, name, uid, found, err)
			}
		}
	}
}

// connect returns both ends of a connection that lasts until the test ends.
func connect(t testing.TB, l net.Listener) (client, server netip.AddrPort) {
	t.Helper()
	t.Cleanup(func() { _ = l.Close() })
	at := l.Addr().String()
	if _, port, _ := net.SplitHostPort(at); strings.HasPrefix(at, "[::]") {
		at = "127.0.0.1:" + port
	}
	mine, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = mine.Close(), theirs.Close() })
	return plain(netip.MustParseAddrPort(mine.LocalAddr().String())), plain(netip.MustParseAddrPort(theirs.LocalAddr().String()))
}

// BenchmarkFind is the cost for each new connection: by sock_diag, and by the lists where there is none.
func BenchmarkFind(b *testing.B) {
	l, err := (&net.ListenConfig{}).Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	client, server := connect(b, l)
	for name, ask := range map[string]func(_, _ netip.AddrPort) (uint32, bool, error){"diag": diagnose, "lists": list} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, found, err := ask(client, server); !found || err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
