package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/people/peer"
	"github.com/muster-dev/muster/internal/people/session"
)

// TestMain runs, when asked to, a command of another user.
func TestMain(m *testing.M) {
	if path := os.Getenv("CONTROL_TEST_SOCKET"); path != "" {
		if id := os.Getenv("CONTROL_TEST_REVOKE"); id != "" {
			fmt.Print(NewClient(path, "").Revoke(context.Background(), id))
			os.Exit(0)
		}
		list, err := NewClient(path, "").List(context.Background(), os.Getenv("CONTROL_TEST_ALL") != "")
		text, _ := json.Marshal(list)
		fmt.Printf("%s %v", text, err)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

type console struct{ table *session.Table }

func (c console) Table() *session.Table { return c.table }

func (c console) Link(_ context.Context, who session.Caller, port int) (string, error) {
	if port == 13 {
		return "", errors.New("port 13 is not for you")
	}
	return fmt.Sprint("link of ", who.User, " at ", port), nil
}

// serve serves commands at a socket that other users reach, for a Muster of one uid.
func serve(t *testing.T, uid uint32, trouble error) (*Client, string, *session.Table) {
	t.Helper()
	table, err := session.Open(t.Context(), session.Options{Store: session.File{Path: filepath.Join(t.TempDir(), "s.json")}, Scopes: []string{"read"}})
	must(t, err)
	c, path := serveWith(t, table, &Server{Console: func() (Console, error) { return console{table}, trouble }, Caller: OnlyUser(uid),
		Administrator: func(*http.Request) error { return errors.New("there are no others") }})
	return c, path, table
}

// serveWith serves a server at such a socket.
func serveWith(t *testing.T, table *session.Table, s *Server) (*Client, string) {
	t.Helper()
	folder, err := os.MkdirTemp("/tmp", "muster-control-") //nolint:usetesting // other users pass through it
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	must(t, os.Chmod(folder, 0o755)) //nolint:gosec // other users pass through it
	path := filepath.Join(folder, "control.sock")
	l, err := peer.Listen(t.Context(), path)
	must(t, err)
	s.Port = func() int { return 6490 }
	if s.Console == nil {
		s.Console = func() (Console, error) { return console{table}, nil }
	}
	server := &http.Server{Handler: s.Handler(), ConnContext: peer.Context, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return NewClient(path, ""), path
}

// as runs a command as a user.
func as(t *testing.T, uid uint32, env ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env, cmd.Dir = env, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.CombinedOutput()
	must(t, err)
	return string(out)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestCommands: links, tokens and revocations of the caller.
func TestCommands(t *testing.T) {
	c, _, table := serve(t, uint32(os.Geteuid()), nil) //nolint:gosec // a uid
	ctx := t.Context()
	me := CallerOf(uint32(os.Geteuid())) //nolint:gosec // a uid
	link, err := c.Link(ctx, 40000)
	if err != nil || link.URL != "link of "+me.User+" at 40000" || link.Port != 6490 || link.User != me.User || time.Until(link.Expires) > time.Minute {
		t.Errorf("link %+v, error %v", link, err)
	}
	var refused *RefusedError
	if _, err := c.Link(ctx, 13); !errors.As(err, &refused) || refused.Message != "port 13 is not for you" {
		t.Errorf("a refusal is %v", err)
	}
	made, err := c.CreateToken(ctx, TokenRequest{Name: "nightly", Scopes: []string{"read"}, Lifetime: 3600})
	must(t, err)
	if grant, err := table.Token(made.Token); err != nil || grant.Caller.User != me.User || grant.ID != made.ID {
		t.Errorf("the token is of %+v, error %v", grant.Entry, err)
	}
	theirs, _, err := table.CreateToken(ctx, session.Caller{User: "unix:61009"}, session.TokenSpec{Name: "theirs", Scopes: []string{"read"}, Lifetime: time.Hour})
	must(t, err)
	other, err := table.Token(theirs.Reveal())
	must(t, err)
	list, err := c.List(ctx, false)
	if err != nil || len(list) != 1 || list[0].ID != made.ID {
		t.Errorf("list %v, error %v", list, err)
	}
	for _, id := range []string{other.ID, "", "../tokens", "%2e"} {
		if err := c.Revoke(ctx, id); err == nil {
			t.Errorf("revoked %q", id)
		}
	}
	must(t, c.Revoke(ctx, made.ID))
	if err := c.Revoke(ctx, made.ID); !errors.Is(err, session.ErrUnknown) {
		t.Errorf("a second revocation: %v", err)
	}
	for _, bad := range []TokenRequest{{}, {Name: "a", Scopes: []string{"all"}, Lifetime: 1}, {Name: "a", Scopes: []string{"read"}, Lifetime: -1}, {Name: "a", Scopes: []string{"read"}, Lifetime: 1 << 62}} {
		if got, err := c.CreateToken(ctx, bad); err == nil {
			t.Errorf("%+v made the token %s", bad, got.ID)
		}
	}
}

// TestAnotherUser: a user of the machine gets nothing of another user's Muster.
func TestAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to run commands of other users")
	}
	_, path, table := serve(t, 61001, nil)
	_, _, err := table.CreateToken(t.Context(), CallerOf(61001), session.TokenSpec{Name: "a", Scopes: []string{"read"}, Lifetime: time.Hour})
	must(t, err)
	for uid, want := range map[uint32]string{61001: `"unix:61001"`, 61002: "null this Muster is of uid 61001: uid 61002 may not use its console", 0: `"unix:61001"`} {
		if out := as(t, uid, "CONTROL_TEST_SOCKET="+path); !strings.Contains(out, want) {
			t.Errorf("uid %d: %s, want %s", uid, out, want)
		}
	}
}

// TestUsers: at the socket of a machine each user has their own entries, and administrators those of all.
func TestUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to run commands of other users")
	}
	table, err := session.Open(t.Context(), session.Options{Store: session.File{Path: filepath.Join(t.TempDir(), "s.json")}, Scopes: []string{"read"}})
	must(t, err)
	_, path := serveWith(t, table, &Server{Caller: Peer, Administrator: func(r *http.Request) error {
		if who, err := peer.FromContext(r.Context()); err != nil || who.UID != 0 && who.UID != 61003 {
			return errors.New("only administrators list those of all users")
		}
		return nil
	}})
	var tokens []session.Entry
	for _, uid := range []uint32{61001, 61002} {
		_, e, err := table.CreateToken(t.Context(), CallerOf(uid), session.TokenSpec{Name: "a", Scopes: []string{"read"}, Lifetime: time.Hour})
		must(t, err)
		tokens = append(tokens, e)
	}
	const none = "only administrators list those of all users"
	for _, c := range []struct {
		uid         uint32
		all, revoke string
		want, not   string
	}{
		{61001, "", "", "unix:61001", "unix:61002"}, {61002, "", "", "unix:61002", "unix:61001"}, {61001, "1", "", none, "unix:"},
		{61003, "", "", "[] <nil>", "unix:"}, {61003, "1", "", "unix:61002", "!"}, {0, "1", "", "unix:61001", "!"},
		{61002, "", tokens[0].ID, session.ErrUnknown.Error(), "!"}, {61002, "", tokens[1].ID, "<nil>", "unknown"},
		{61003, "", tokens[0].ID, "<nil>", "unknown"}, {0, "1", "", "[] <nil>", "unix:"}, {0, "", tokens[0].ID, session.ErrUnknown.Error(), "!"},
	} {
		got := as(t, c.uid, "CONTROL_TEST_SOCKET="+path, "CONTROL_TEST_ALL="+c.all, "CONTROL_TEST_REVOKE="+c.revoke)
		if !strings.Contains(got, c.want) || strings.Contains(got, c.not) {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// TestUIDOf: a uid has one spelling.
func TestUIDOf(t *testing.T) {
	for user, want := range map[string]string{"unix:0": "0 true", "unix:4294967294": "4294967294 true"} {
		if uid, ok := UIDOf(user); fmt.Sprint(uid, ok) != want {
			t.Errorf("%s: %d %v", user, uid, ok)
		}
	}
	for _, user := range []string{"", "0", "unix:", "unix:+1", "unix:01", "unix:-1", "unix:4294967296", "unix:1 ", "Unix:1", "muster:1"} {
		if uid, ok := UIDOf(user); ok {
			t.Errorf("%q is uid %d", user, uid)
		}
	}
}

// TestNoConsole: a command is told why there is no console.
func TestNoConsole(t *testing.T) {
	c, _, _ := serve(t, uint32(os.Geteuid()), errors.New("127.0.0.1:6490 is taken")) //nolint:gosec // a uid
	if _, err := c.Link(t.Context(), 0); err == nil || err.Error() != "127.0.0.1:6490 is taken" {
		t.Errorf("the error is %v", err)
	}
}
