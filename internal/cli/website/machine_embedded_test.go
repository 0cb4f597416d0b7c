//go:build embedded

package website_test

import (
	"bytes"
	"context"
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
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/configuration"
	"github.com/muster-dev/muster/internal/account"
	"github.com/muster-dev/muster/internal/cli/answers"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/website"
	"github.com/muster-dev/muster/internal/controlplane"
	"github.com/muster-dev/muster/internal/controlplane/planetest"
	"github.com/muster-dev/muster/internal/door"
	"github.com/muster-dev/muster/internal/door/receiver"
	"github.com/muster-dev/muster/internal/passage"
	"github.com/muster-dev/muster/internal/people/control"
	"github.com/muster-dev/muster/internal/people/frontproxy"
	"github.com/muster-dev/muster/internal/people/peer"
	"github.com/muster-dev/muster/internal/people/userapi"
	"github.com/muster-dev/muster/internal/people/web"
	"github.com/muster-dev/muster/internal/tenant"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// The users of the machine: ada is in the group vision, cy in that of administrators.
const (
	ada, eve, cy = 41001, 41002, 41003
	passwd       = "root:x:0:0::/root:/bin/sh\nada:x:41001:41001::/home/ada:/bin/sh\neve:x:41002:41002::/home/eve:/bin/sh\ncy:x:41003:41003::/home/cy:/bin/sh\n"
	groups       = "root:x:0:\nada:x:41001:\neve:x:41002:\ncy:x:41003:\nmuster-admin:x:41110:cy\n"
	vision       = "vision:x:41100:ada\n"
)

// TestMain is a program of a user: one request, or ssh.
func TestMain(m *testing.M) {
	switch text := os.Getenv("WEBSITE_TEST_SEND"); {
	case filepath.Base(os.Args[0]) == "ssh":
		if err := ssh(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case text != "":
		var s sending
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			panic(err)
		}
		_ = json.NewEncoder(os.Stdout).Encode(s.send())
	default:
		os.Exit(m.Run())
	}
}

// sending is a request of a process.
type sending struct {
	Method, URL, Body, Cookie, Key, Token string
}

// sent is its answer.
type sent struct {
	Status             int
	Text, Cookie, Fail string
}

func (s sending) send() sent {
	r, err := http.NewRequest(s.Method, s.URL, strings.NewReader(s.Body))
	if err != nil {
		return sent{Fail: err.Error()}
	}
	r.Header.Set("Origin", r.URL.Scheme+"://"+r.URL.Host)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	for name, value := range map[string]string{"Cookie": s.Cookie, "X-Muster-Key": s.Key, "Authorization": s.Token} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	if s.Body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := (&http.Client{Timeout: 20 * time.Second}).Do(r)
	if err != nil {
		return sent{Fail: err.Error()}
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	out := sent{Status: answer.StatusCode, Text: string(text)}
	if err != nil {
		out.Fail = err.Error()
	}
	for _, c := range answer.Cookies() {
		if c.MaxAge >= 0 {
			out.Cookie = c.Name + "=" + c.Value
		}
	}
	return out
}

// ssh runs a command on "the other machine", or forwards a port there, as its own user.
func ssh(args []string) error {
	end := slices.Index(args, "--")
	if command := args[end+2:]; len(command) > 0 {
		cmd := exec.Command("/bin/sh", "-c", strings.Join(command, " "))
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		return cmd.Run()
	}
	parts := strings.Split(args[slices.Index(args, "-L")+1], ":")
	l, err := net.Listen("tcp", "127.0.0.1:"+parts[1])
	if err != nil {
		return err
	}
	for {
		from, err := l.Accept()
		if err != nil {
			return err
		}
		to, err := net.Dial("tcp", net.JoinHostPort(parts[2], parts[3]))
		if err != nil {
			return err
		}
		go func() {
			_, _ = io.Copy(to, from)
			_ = to.Close()
		}()
		go func() {
			_, _ = io.Copy(from, to)
			_ = from.Close()
		}()
	}
}

func need(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// machine is a Muster of several users with its console: a real API server, the front proxy, the socket.
type machine struct {
	*testing.T
	folder, socket, base string
	passage              *passage.Machine
	stop                 func()
}

func start(t *testing.T) *machine {
	t.Helper()
	m := &machine{T: t}
	folder, err := os.MkdirTemp("/tmp", "muster-console-") //nolint:usetesting // other users pass through it
	need(t, err)
	m.folder, m.socket = folder, filepath.Join(folder, "run", "muster.sock")
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	need(t, os.Chmod(folder, 0o755))
	m.copy(harness.Binary(), "muster")
	m.copy("/proc/self/exe", "ssh")
	need(t, os.Mkdir(filepath.Join(folder, "etc"), 0o700))
	m.users(passwd, groups+vision)
	plane, err := controlplane.Start(t.Context(), controlplane.Options{DataDir: t.TempDir(), Executable: planetest.Command(t), Shared: &controlplane.Sharing{Version: "test"}})
	need(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		need(t, plane.Stop(ctx))
	})
	users := account.New(account.Options{Folder: filepath.Join(folder, "etc"), FilesOnly: true, Known: time.Nanosecond, Unknown: time.Nanosecond, Away: time.Nanosecond})
	t.Cleanup(users.Close)
	scheme, err := connection.Scheme()
	need(t, err)
	admin, err := client.New(plane.RESTConfig(), client.Options{Scheme: scheme})
	need(t, err)
	keeper, err := tenant.NewKeeper(tenant.KeeperOptions{Server: admin, Directory: users})
	need(t, err)
	server, trust, err := plane.FrontProxy()
	need(t, err)
	proxy, err := frontproxy.New(frontproxy.Options{Server: server, TLS: trust, Directory: users})
	need(t, err)
	receive := receiver.New(receiver.Options{API: admin, Directory: users, Administrators: []string{"muster-admin"}})
	says := answers.New(answers.Options{Cache: admin, API: admin, Logins: users.Name})
	inside := peer.NewInside()
	m.passage = passage.NewMachine(passage.MachineOptions{Dial: inside.Dial, Accounts: users, Namespace: func(uid uint32) string { return tenant.OfMachine(uid, "").Name }})
	free, err := web.Listen(t.Context(), "", 0)
	need(t, err)
	port := web.PortOf(free[0])
	for _, l := range free {
		need(t, l.Close())
	}
	m.base = fmt.Sprint("http://localhost:", port)
	home := t.TempDir()
	console, err := website.New(t.Context(), website.Options{ // the users of a machine connect from the addresses of its reverse proxy, too
		Home: home, Config: configuration.Console{Port: port, Proxies: []string{"127.0.0.1", "::1"}}, Name: users.NameWithin, Version: "test", Log: slog.New(slog.DiscardHandler),
		Say:     func(format string, args ...any) { t.Logf(format, args...) },
		Machine: &website.Machine{Passage: m.passage, Administrator: receive.Administrator},
	})
	need(t, err)
	if info, err := os.Stat(website.Folder(home)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder of the console: %v, %v", info, err)
	}
	box, err := userapi.New(userapi.Options{
		Directory: users, API: proxy, Console: console.Commands(),
		Door:    door.New(door.Options{API: admin, Pods: admin, Receive: receive.Receive, Answers: says, ShowUsers: true}).Handler(),
		Prepare: func(ctx context.Context, p peer.Peer) error { return keeper.Ensure(ctx, p.UID, p.GIDs()) },
	})
	need(t, err)
	listener, err := peer.Listen(t.Context(), m.socket)
	need(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 2)
	go func() { done <- box.Serve(ctx, listener, inside) }()
	go func() { done <- console.Run(ctx) }()
	var stopped bool
	m.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		need(t, errors.Join(<-done, <-done))
		proxy.Close()
	}
	t.Cleanup(m.stop)
	return m
}

func (m *machine) copy(from, name string) {
	m.Helper()
	in, err := os.Open(from)
	need(m, err)
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(filepath.Join(m.folder, name), os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	need(m, err)
	_, err = io.Copy(out, in)
	need(m, errors.Join(err, out.Close()))
}

// users writes the directory of users.
func (m *machine) users(passwd, group string) {
	m.Helper()
	need(m, os.WriteFile(filepath.Join(m.folder, "etc", "passwd"), []byte(passwd), 0o600))
	need(m, os.WriteFile(filepath.Join(m.folder, "etc", "group"), []byte(group), 0o600))
}

// command is one of a user.
func (m *machine) command(uid uint32, words string) *exec.Cmd {
	m.Helper()
	home := filepath.Join(m.folder, fmt.Sprint("home-", uid))
	if err := os.Mkdir(home, 0o700); !errors.Is(err, os.ErrExist) {
		need(m, errors.Join(err, os.Chown(home, int(uid), int(uid))))
	}
	cmd := exec.CommandContext(m.Context(), filepath.Join(m.folder, "muster"), strings.Fields(words)...)
	cmd.Dir = home
	cmd.Env = []string{"HOME=" + home, "MUSTER_SOCKET=" + m.socket, "PATH=" + m.folder + ":/usr/bin:/bin", "NO_COLOR=1"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	return cmd
}

// run runs muster as a user, and wants a code and text.
func (m *machine) run(uid uint32, words string, code int, says string) string {
	m.Helper()
	cmd := m.command(uid, words)
	out, err := cmd.CombinedOutput()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		m.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != code || !strings.Contains(string(out), says) {
		m.Errorf("uid %d: muster %s: code %d, want %d and %q:\n%s", uid, words, got, code, says, out)
	}
	return string(out)
}

// send sends a request as a process of a user.
func (m *machine) send(uid uint32, s sending) (answer sent) {
	m.Helper()
	if s.Method == "" {
		s.Method = http.MethodGet
	}
	if strings.HasPrefix(s.URL, "/") {
		s.URL = m.base + s.URL
	}
	text, err := json.Marshal(s)
	need(m, err)
	cmd := exec.CommandContext(m.Context(), "/proc/self/exe")
	cmd.Env, cmd.Dir = []string{"WEBSITE_TEST_SEND=" + string(text)}, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.Output()
	need(m, err)
	need(m, json.Unmarshal(out, &answer))
	return answer
}

// want sends a request as a process of a user, and wants a status and text.
func (m *machine) want(uid uint32, s sending, status int, says string) {
	m.Helper()
	if got := m.send(uid, s); got.Status != status || !strings.Contains(got.Text, says) {
		m.Errorf("%s by uid %d: %+v, want %d and %q", s.URL, uid, got, status, says)
	}
}

// link returns a link of a user, once the console is there.
func (m *machine) link(uid uint32, words string) string {
	m.Helper()
	for {
		cmd := m.command(uid, "console --print "+words)
		out, err := cmd.CombinedOutput()
		if err == nil {
			return strings.TrimSpace(string(out))
		}
		if !strings.Contains(string(out), "is starting") {
			m.Fatalf("%s (%v)", out, err)
		}
	}
}

// exchange sends a link as a process of a user: first to learn whose it is, then to sign in.
func (m *machine) exchange(uid uint32, link string) (browser sending, last sent) {
	m.Helper()
	base, secret, _ := strings.Cut(link, "/.muster/enter#")
	var named struct{ User, Key string }
	for range 2 {
		body, err := json.Marshal(map[string]string{"link": secret, "user": named.User})
		need(m, err)
		last = m.send(uid, sending{Method: http.MethodPost, URL: base + "/.muster/enter/link", Body: string(body)})
		if last.Status != http.StatusOK {
			return browser, last
		}
		need(m, json.Unmarshal([]byte(last.Text), &named))
	}
	return sending{URL: base, Cookie: last.Cookie, Key: named.Key}, last
}

// at is a request with the session of a browser.
func (s sending) at(path string) sending {
	s.URL += path
	return s
}

// id is the ID of a session or token in a list.
var id = regexp.MustCompile(`(?m)^([0-9a-f]{16}) `)

// TestConsoleOfUsers: users of one machine share a console. What one has is of no use to another, and
// reads go to the API server as the user of the session.
func TestConsoleOfUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can run processes of several users")
	}
	m := start(t)
	// A link is for processes of its user.
	link := m.link(ada, "")
	if !strings.HasPrefix(link, m.base+"/.muster/enter#muster-link.") {
		t.Fatalf("the link is %s", link)
	}
	if _, got := m.exchange(eve, link); got.Status != http.StatusForbidden || !strings.Contains(got.Text, "the connection comes from uid 41002") {
		t.Errorf("ada's link by a process of eve: %+v", got)
	}
	hers, got := m.exchange(ada, link)
	if got.Status != http.StatusOK {
		t.Fatalf("ada's link: %+v", got)
	}
	theirs, got := m.exchange(eve, m.link(eve, ""))
	if got.Status != http.StatusOK {
		t.Fatalf("eve's link: %+v", got)
	}
	t.Run("sessions", func(*testing.T) {
		m.want(ada, hers.at("/api/me"), 200, `"user":"unix:41001","groups":["unix-group:ada","unix-group:vision","system:authenticated"]`)
		m.want(eve, theirs.at("/api/me"), 200, `"user":"unix:41002","groups":["unix-group:eve",`)
		m.want(eve, hers.at("/api/me"), 403, "may not use")
		m.want(ada, theirs.at("/api/gpus"), 403, "may not use")
		m.want(0, hers.at("/api/me"), 200, "unix:41001") // root can read ada's memory
		m.want(ada, hers.at("/api/gpus"), 200, `"nodes"`)
		m.want(ada, sending{URL: "/api/me"}, 401, "no session")
	})
	t.Run("tokens", func(*testing.T) {
		var made control.Token
		need(t, json.Unmarshal([]byte(m.run(ada, "token create --for a --scope read -o json", 0, "")), &made))
		by := sending{URL: "/api/gpus", Token: "Bearer " + made.Token}
		m.want(ada, by, 200, `"nodes"`)
		m.want(eve, by, 403, "the connection comes from uid 41002")
		m.run(eve, "token create --for a --scope read", 0, "muster-token.") // the same name, of another user
		if said := m.run(eve, "token list", 0, ""); strings.Contains(said, made.ID) {
			t.Errorf("eve sees ada's token:\n%s", said)
		}
		m.run(eve, "token revoke "+made.ID, 3, "you have no token")
		m.want(ada, by, 200, "")
		m.run(ada, "token revoke "+made.ID, 0, "revoked")
		m.want(ada, by, 401, "")
	})
	t.Run("rights", m.rights)
	t.Run("tunnel", m.tunnel)
	t.Run("lists", func(t *testing.T) { m.lists(t, hers, theirs) })
	t.Run("users change", func(*testing.T) { m.change(theirs) })
	m.stop()
	m.run(eve, "console --print", 3, "no Muster is running here")
	m.run(eve, "session list", 3, "no Muster is running here")
}

// rights: the way of a session has the rights of its user.
func (m *machine) rights(t *testing.T) {
	const jobs = "/apis/muster.dev/v1alpha1/namespaces/u-%d/trainingjobs"
	for _, c := range []struct {
		uid    uint32
		path   string
		as     string
		status int
	}{
		{ada, fmt.Sprintf(jobs, ada), "", 200}, {ada, fmt.Sprintf(jobs, eve), "", 403}, {eve, fmt.Sprintf(jobs, eve), "", 200}, {eve, fmt.Sprintf(jobs, ada), "", 403},
		{ada, "/api/v1/nodes", "", 403}, {ada, "/api/v1/namespaces/u-41002/secrets", "", 403}, {ada, fmt.Sprintf(jobs, eve), "unix:41002", 403},
		{ada, fmt.Sprintf(jobs, eve), "muster-admin", 403}, {cy, fmt.Sprintf(jobs, ada), "", 200}, {cy, "/api/v1/namespaces/u-41001/secrets", "", 403},
		{0, "/api/v1/namespaces/u-41001/secrets", "", 200}, {ada, userapi.CredentialPath, "", 404}, {ada, userapi.ConsolePath + "/v1/entries", "", 403},
		{ada, userapi.DoorPath + "/v1/namespaces/u-41001/top", "", 200}, {ada, userapi.DoorPath + "/v1/namespaces/u-41002/top", "", 403},
	} {
		way, err := m.passage.Of(t.Context(), control.CallerOf(c.uid))
		need(t, err)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, way.Server.String()+c.path, http.NoBody)
		need(t, err)
		if c.as != "" {
			r.Header.Set("X-Remote-User", c.as)
			r.Header.Set("Impersonate-User", c.as)
		}
		answer, err := way.Transport.RoundTrip(r)
		need(t, err)
		text, err := io.ReadAll(answer.Body)
		need(t, errors.Join(err, answer.Body.Close()))
		if answer.StatusCode != c.status {
			t.Errorf("%s as uid %d (%s): %d, want %d: %.300s", c.path, c.uid, c.as, answer.StatusCode, c.status, text)
		}
	}
}

// tunnel: by ssh the console is there at a port of another machine. The connection is of ssh's user.
func (m *machine) tunnel(t *testing.T) {
	for _, c := range []struct {
		by     uint32 // whose ssh it is
		status int
	}{{ada, 200}, {eve, 403}} {
		free, err := web.Listen(t.Context(), "", 0)
		need(t, err)
		port := strconv.Itoa(web.PortOf(free[0]))
		for _, l := range free {
			need(t, l.Close())
		}
		link := m.link(ada, "--port "+port)
		cmd := m.command(c.by, "console --print --ssh box --port "+port)
		out, err := cmd.StdoutPipe()
		need(t, err)
		var said bytes.Buffer
		cmd.Stderr = &said
		need(t, cmd.Start())
		line := make([]byte, 200)
		n, err := out.Read(line)
		if err != nil {
			t.Errorf("no tunnel: %v, %s", err, said.String())
		}
		printed := strings.TrimSpace(string(line[:n]))
		if c.by == ada {
			link = printed
		}
		if !strings.HasPrefix(printed, "http://localhost:"+port+"/.muster/enter#") {
			t.Errorf("the command printed %q", printed)
		}
		browser, got := m.exchange(cy, link) // the user of the laptop counts for nothing
		if got.Status != c.status {
			t.Errorf("ada's link by the tunnel of uid %d: %+v, want %d", c.by, got, c.status)
		}
		if c.status == 200 {
			m.want(cy, browser.at("/api/me"), 200, "unix:41001")
		}
		need(t, cmd.Process.Signal(os.Interrupt))
		_ = cmd.Wait()
	}
}

// lists: users see and end their own sessions, administrators those of all.
func (m *machine) lists(t *testing.T, hers, theirs sending) {
	said := m.run(ada, "session list", 0, "")
	ids := id.FindAllStringSubmatch(said, -1)
	if len(ids) != 2 { // one by the tunnel
		t.Fatalf("ada's sessions:\n%s", said)
	}
	if said := m.run(eve, "session list", 0, ""); len(id.FindAllString(said, -1)) != 1 || strings.Contains(said, ids[0][1]) {
		t.Errorf("eve's sessions:\n%s", said)
	}
	for _, one := range ids {
		m.run(eve, "session revoke "+one[1], 3, "you have no session")
		m.want(eve, sending{Method: http.MethodDelete, URL: theirs.URL + "/api/sessions/" + one[1], Cookie: theirs.Cookie, Key: theirs.Key}, 404, "you have no such")
	}
	m.run(eve, "session list --all", 1, "only administrators")
	m.run(eve, "token list --all", 1, "only administrators")
	m.want(ada, hers.at("/api/me"), 200, "")
	for _, uid := range []uint32{cy, 0} {
		if said := m.run(uid, "session list", 0, "no sessions"); strings.Contains(said, ids[0][1]) {
			t.Errorf("an administrator's own sessions:\n%s", said)
		}
		m.run(uid, "session list --all", 0, ids[0][1])
		m.run(uid, "token list --all", 0, "USER")
	}
	for _, one := range ids {
		m.run(cy, "session revoke "+one[1], 0, "revoked")
	}
	m.want(ada, hers.at("/api/me"), 401, "no session")
	m.run(ada, "session list", 0, "no sessions")
}

// change: groups count as they are at each request, and a user who is removed gets nothing more.
func (m *machine) change(theirs sending) {
	m.want(eve, theirs.at("/api/me"), 200, `["unix-group:eve","system:authenticated"]`)
	m.users(passwd, groups+vision+"speech:x:41101:eve\n")
	m.want(eve, theirs.at("/api/me"), 200, `["unix-group:eve","unix-group:speech","system:authenticated"]`)
	m.users(strings.ReplaceAll(passwd, "eve:x:41002:41002::/home/eve:/bin/sh\n", ""), groups)
	for _, path := range []string{"/api/me", "/api/gpus", "/api/sessions"} {
		m.want(eve, theirs.at(path), 403, "uid 41002 is no user of this machine any more")
	}
	m.run(eve, "session list", 1, "uid 41002 is no user of this machine")
	m.users(passwd, groups)
	m.want(eve, theirs.at("/api/me"), 200, `["unix-group:eve","system:authenticated"]`)
}
