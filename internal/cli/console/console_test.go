package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/people/control"
)

// TestMain is the ssh program of TestTunnel, when it is called so.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "ssh" {
		if err := ssh(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// ssh runs what is asked for on "the other machine", or forwards a port until it is killed.
func ssh(args []string) error {
	if os.Getenv("SSH_TEST_FAILS") != "" {
		return errors.New("ssh: permission denied")
	}
	end := slices.Index(args, "--")
	if end < 0 || args[end+1] != "ada@box" {
		return fmt.Errorf("the host is not ada@box: %q", args)
	}
	if command := args[end+2:]; len(command) > 0 {
		words := strings.Fields(command[0])
		if want := []string{"muster", "--home", "/data", "console", "--print", "-o", "json", "--port"}; len(words) != 9 || !slices.Equal(words[:8], want) {
			return fmt.Errorf("the command is %q", command)
		}
		_, err := fmt.Printf(os.Getenv("SSH_TEST_LINK"), words[8])
		return err
	}
	forward := args[slices.Index(args, "-L")+1]
	parts := strings.Split(forward, ":")
	if len(parts) != 4 || parts[0] != "localhost" || parts[2] != "127.0.0.1" {
		return fmt.Errorf("the tunnel is %s", forward)
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:"+parts[1])
	if err != nil {
		return err
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		_ = conn.Close()
	}
}

func newOptions(t *testing.T) (*options, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	format := output.Human
	o := &options{factory: connection.New(terminal.Streams{In: strings.NewReader(""), Out: &out, Err: io.Discard}, "test"), format: &format,
		ssh: "ada@box", program: "muster --home /data"}
	return o, &out
}

func fakeSSH(t *testing.T, link string) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := os.Symlink(program, filepath.Join(folder, "ssh")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", folder)
	t.Setenv("SSH_TEST_LINK", link)
}

const goodLink = `{"url": "http://localhost:%s/.muster/enter#muster-link.a.b", "port": 649, "user": "unix:1000", "expires": "2026-01-02T03:04:05Z"}`

// TestTunnel: the link names the local port, and is opened once the tunnel is.
func TestTunnel(t *testing.T) {
	fakeSSH(t, goodLink)
	o, out := newOptions(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var opened string
	o.open = func(ctx context.Context, link string) error {
		opened = link
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", strings.TrimPrefix(strings.Split(link, "/.muster")[0], "http://"))
		if err != nil {
			t.Errorf("the tunnel is not open: %v", err)
		} else {
			_ = conn.Close()
		}
		cancel()
		return nil
	}
	if err := o.tunnel(ctx); err == nil || err.Error() != "exit status 130" {
		t.Errorf("the command ends with %v", err)
	}
	if opened == "" || !strings.Contains(out.String(), opened) {
		t.Errorf("opened %q, printed %q", opened, out)
	}
}

// TestTunnelRefuses: a failure of ssh ends the command, and no link of the other machine leads elsewhere.
func TestTunnelRefuses(t *testing.T) {
	for name, c := range map[string]struct{ link, want string }{
		"another server": {strings.Replace(goodLink, "localhost", "evil.example", 1), "gave the link"},
		"another port":   {strings.Replace(goodLink, "%s", "1%s", 1), "gave the link"},
		"a file":         {strings.Replace(goodLink, "http://localhost", "file:///etc", 1), "gave the link"},
		"a script":       {strings.Replace(goodLink, "#muster", `#\"><script>`, 1), "gave the link"},
		"a bad port":     {strings.Replace(goodLink, "649", "70000", 1), "gave the link"},
		"no answer":      {"%s", "reading the answer"},
	} {
		fakeSSH(t, c.link)
		o, _ := newOptions(t)
		o.open = func(context.Context, string) error { t.Errorf("%s: a link was opened", name); return nil }
		if err := o.tunnel(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	fakeSSH(t, goodLink)
	t.Setenv("SSH_TEST_FAILS", "1")
	o, _ := newOptions(t)
	if err := o.tunnel(t.Context()); err == nil || !strings.Contains(err.Error(), "asking the Muster of ada@box") {
		t.Errorf("without a connection: %v", err)
	}
}

// TestHosts: no host is an option of ssh.
func TestHosts(t *testing.T) {
	for _, good := range []string{"box", "ada@box", "ada.l@gpu-1.example.org", "10.0.0.1", "ada@fe80::1%eth0", "a_b@c"} {
		if err := checkHost(good); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"-oProxyCommand=sh", "", " box", "ada@-box", "-l@box", "a@b c", "box;ls", "a@b@c", "$(ls)", "box\n-o", "@box", strings.Repeat("a", 256)} {
		if err := checkHost(bad); err == nil {
			t.Errorf("%q was taken as a host", bad)
		}
	}
}

// TestLeader: the browser gets a file of the user alone, which quotes the link.
func TestLeader(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "muster")
	link := "http://localhost:6490/.muster/enter#muster-link.a.b"
	for range 2 {
		file, err := writeLeader(folder, link)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(text), `url=`+link+`"`) || !strings.Contains(string(text), `href="`+link+`"`) {
			t.Errorf("%s (%v)", text, err)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v (%v)", info.Mode(), err)
		}
	}
	if got := browser(func(string) string { return "" }); got != nil {
		t.Skipf("this system always has a display: %v", got)
	}
}

// TestShow: the link is printed, alone with --print.
func TestShow(t *testing.T) {
	o, out := newOptions(t)
	o.open = func(context.Context, string) error { return errNoDisplay }
	link := control.Link{URL: "http://localhost:6490/.muster/enter#x", Expires: time.Now()}
	if err := o.show(t.Context(), link); err != nil || !strings.Contains(out.String(), link.URL+"\nThe link works once") {
		t.Errorf("%q (%v)", out, err)
	}
	out.Reset()
	o.print = true
	if err := o.show(t.Context(), link); err != nil || out.String() != link.URL+"\n" {
		t.Errorf("%q (%v)", out, err)
	}
}
