package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/people/gate"
	"github.com/muster-dev/muster/internal/people/session"
)

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func report(b *testing.B, times []time.Duration) {
	b.Helper()
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-µs")
}

// TestMain runs, when asked to, a request of another user, and a process that systemd has started.
func TestMain(m *testing.M) {
	if text := os.Getenv("WEB_TEST_SEND"); text != "" {
		var s sending
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			panic(err)
		}
		fmt.Print(s.send())
		os.Exit(0)
	}
	if os.Getenv("WEB_TEST_PASSED") != "" {
		if os.Getenv("LISTEN_PID") == "self" {
			_ = os.Setenv("LISTEN_PID", strconv.Itoa(os.Getpid()))
		}
		all, err := Passed()
		for _, l := range all {
			fmt.Println(l.Addr())
		}
		fmt.Println(err, os.Getenv("LISTEN_FDS"))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// sending is a request that another process sends.
type sending struct {
	Method, URL, Body string
	Header            http.Header
}

// send returns the status, or an error, as text.
func (s sending) send() string {
	r, err := http.NewRequest(s.Method, s.URL, strings.NewReader(s.Body)) //nolint:noctx // the process lives for one request
	if err != nil {
		return err.Error()
	}
	r.Header = s.Header
	answer, err := (&http.Client{Timeout: 20 * time.Second}).Do(r)
	if err != nil {
		return err.Error()
	}
	text, _ := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	return fmt.Sprintf("%d %s", answer.StatusCode, text)
}

// as sends a request as a user of the machine.
func as(t *testing.T, uid uint32, r *http.Request) string {
	t.Helper()
	s := sending{Method: r.Method, URL: r.URL.String(), Header: r.Header}
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		must(t, err)
		s.Body = string(body)
	}
	text, err := json.Marshal(s)
	must(t, err)
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env, cmd.Dir = []string{"WEB_TEST_SEND=" + string(text)}, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("a request of uid %d: %v: %s", uid, err, out)
	}
	return string(out)
}

// TestStolen: what a user of the machine steals from another, a cookie with its key, a link or a port of
// a program, is of no use to them.
func TestStolen(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to send requests of other users")
	}
	connections := Connections{Owner: func(c session.Caller) (uint32, bool) {
		number, err := strconv.ParseUint(strings.TrimPrefix(c.User, "unix:"), 10, 32)
		return uint32(number), err == nil
	}}
	s := newSite(t, func(o *Options) { o.Admit = connections.Admit })
	mine := s.signIn(t, ada)
	for uid, want := range map[uint32]string{61001: "200 ", 61002: "403 "} {
		if got := as(t, uid, mine.request("GET", "/api/me", "")); !strings.HasPrefix(got, want) {
			t.Errorf("the session of uid 61001, used by uid %d: %s", uid, got)
		}
		if got := as(t, uid, mine.request("GET", "/", "")); !strings.HasPrefix(got, "200 ") {
			t.Errorf("the page without data, for uid %d: %s", uid, got)
		}
	}
	link, err := s.Link(t.Context(), ada, 0)
	must(t, err)
	_, secret, _ := strings.Cut(link, "#")
	nobody := &client{t: t, base: mine.base, origin: mine.origin}
	exchange := func(user string) *http.Request {
		return nobody.request("POST", gate.Entrance+"/link", `{"link":"`+secret+`","user":"`+user+`"}`)
	}
	for _, c := range []struct {
		uid        uint32
		user, want string
	}{{61002, "", "403 "}, {61002, "unix:61001", "403 "}, {61001, "unix:61001", "200 "}, {61001, "unix:61001", "401 "}} {
		if got := as(t, c.uid, exchange(c.user)); !strings.HasPrefix(got, c.want) {
			t.Errorf("the link of uid 61001, sent by uid %d with the user %q: %s, want %s", c.uid, c.user, got, c.want)
		}
	}
}

// TestConnectionsOfUsers: one user cannot take the connections of another.
func TestConnectionsOfUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to send requests of other users")
	}
	s := newSite(t, func(o *Options) { o.UserConnections = 2 })
	dial := func() net.Conn { // of root
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", "127.0.0.1:"+strconv.Itoa(s.port))
		must(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	ask := func(conn net.Conn) error {
		must(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
		_, err := fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: localhost:%d\r\n\r\n", s.port)
		if err == nil {
			_, err = conn.Read(make([]byte, 1))
		}
		return err
	}
	first, second := dial(), dial()
	for _, conn := range []net.Conn{first, second} {
		if err := ask(conn); err != nil {
			t.Fatal(err)
		}
	}
	if err := ask(dial()); err == nil {
		t.Error("a third connection of one user is served")
	}
	page := (&client{t: t, base: fmt.Sprintf("http://localhost:%d", s.port)}).request("GET", "/", "")
	page.Header.Del("Origin")
	if got := as(t, 61001, page); !strings.HasPrefix(got, "200 ") {
		t.Errorf("another user: %s", got)
	}
	must(t, first.Close())
	for err := errors.New("not asked"); err != nil; err = ask(dial()) { // until the server has noticed
		if t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
}

// TestPassed: sockets of systemd, by a process that gets them as systemd passes them.
func TestPassed(t *testing.T) {
	open := func(network, address string) (*os.File, string) {
		t.Helper()
		l, err := (&net.ListenConfig{}).Listen(t.Context(), network, address)
		must(t, err)
		t.Cleanup(func() { _ = l.Close() })
		f, err := l.(interface{ File() (*os.File, error) }).File()
		must(t, err)
		t.Cleanup(func() { _ = f.Close() })
		return f, l.Addr().String()
	}
	one, oneAt := open("tcp", "127.0.0.1:0")
	two, twoAt := open("tcp", "127.0.0.1:0")
	unixSocket, _ := open("unix", filepath.Join(t.TempDir(), "s"))
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	must(t, err)
	t.Cleanup(func() { _ = file.Close() })
	for name, c := range map[string]struct {
		files             []*os.File
		pid, count, names string
		want              string
	}{
		"one":              {[]*os.File{one}, "self", "1", "", oneAt + "\n<nil> \n"},
		"two":              {[]*os.File{one, two}, "self", "2", "other:console", twoAt + "\n<nil> \n"},
		"without names":    {[]*os.File{one, two}, "self", "2", "a:b", oneAt + "\n" + twoAt + "\n<nil> \n"},
		"a Unix socket":    {[]*os.File{unixSocket, one}, "self", "2", "", oneAt + "\n<nil> \n"},
		"another process":  {[]*os.File{one}, "1", "1", "", "<nil> 1\n"},
		"nothing":          {nil, "", "", "", "<nil> \n"},
		"no number":        {[]*os.File{one}, "self", "x", "", "LISTEN_FDS=\"x\""},
		"no socket":        {[]*os.File{file}, "self", "1", "", "taking socket 3 of systemd"},
		"fewer than named": {[]*os.File{}, "self", "1", "", "taking socket 3 of systemd"},
	} {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
		cmd.Env = []string{"WEB_TEST_PASSED=1", "LISTEN_PID=" + c.pid, "LISTEN_FDS=" + c.count, "LISTEN_FDNAMES=" + c.names}
		cmd.ExtraFiles = c.files
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Run(); err != nil || !strings.HasPrefix(out.String(), c.want) {
			t.Errorf("%s: %q (%v), want %q", name, out.String(), err, c.want)
		}
	}
}
