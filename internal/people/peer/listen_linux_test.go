package peer

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/account"
)

// asClient makes this program connect to the socket in the folder at descriptor 3, and
// print the answer.
const asClient = "MUSTER_TEST_PEER_CLIENT"

// asServer makes this program listen at a path until its input ends.
const asServer = "MUSTER_TEST_PEER_SERVER"

func TestMain(m *testing.M) {
	if path := os.Getenv(asServer); path != "" {
		os.Exit(server(path))
	}
	if name := os.Getenv(asClient); name != "" {
		os.Exit(client(name))
	}
	os.Exit(m.Run())
}

func server(path string) int {
	listener, err := net.Listen("unix", path)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("listening")
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = listener.Close()
	return 0
}

func client(name string) int {
	conn, err := net.Dial("unix", "/proc/self/fd/3/"+name)
	if err == nil {
		_, err = io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n")
	}
	if err == nil {
		_, err = io.Copy(os.Stdout, conn)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// serve answers every request with the peer that it sees.
func serve(t *testing.T, path string, gate Gate) {
	t.Helper()
	listener, err := Listen(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	gate.Next = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, err := FromContext(r.Context())
		if err != nil {
			t.Error(err)
		}
		_ = json.NewEncoder(w).Encode(caller)
	})
	server := &http.Server{Handler: gate, ConnContext: Context, ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
}

// from sends a request as a user, and returns the answer.
func from(t *testing.T, path string, attributes *syscall.SysProcAttr) string {
	t.Helper()
	// The descriptor leads there also where the user may not look up the path.
	folder, err := os.OpenFile(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = folder.Close() }()
	command := exec.CommandContext(t.Context(), "/proc/self/exe")
	command.Env = []string{asClient + "=" + filepath.Base(path)}
	command.ExtraFiles = []*os.File{folder}
	command.SysProcAttr, command.Dir = attributes, "/"
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// everybody knows every user.
type everybody struct{}

func (everybody) ByUID(_ context.Context, uid uint32) (account.Account, bool, error) {
	return account.Account{UID: uid}, true, nil
}

// TestPeer: the kernel tells who connects: this user, and, where this is root, another
// one with 100 groups.
func TestPeer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "muster.sock")
	serve(t, path, Gate{Accounts: everybody{}})
	read := func(answer string) (p Peer) {
		t.Helper()
		_, body, _ := strings.Cut(answer, "\r\n\r\n")
		if err := json.Unmarshal([]byte(body), &p); err != nil {
			t.Fatalf("%v: %s", err, answer)
		}
		slices.Sort(p.Groups)
		return p
	}
	own := read(from(t, path, nil))
	if own.UID != uint32(os.Geteuid()) || own.GID != uint32(os.Getegid()) {
		t.Errorf("the peer is %+v", own)
	}
	if os.Geteuid() != 0 {
		return
	}
	want := Peer{UID: 12345, GID: 12346}
	for gid := range uint32(100) {
		want.Groups = append(want.Groups, 13000+gid)
	}
	got := read(from(t, path, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: want.UID, Gid: want.GID, Groups: append(want.Groups, overflowGID)}}))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestUnmapped: a process of a user without a number here is refused.
func TestUnmapped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "muster.sock")
	serve(t, path, Gate{Accounts: everybody{}, AllowUnknown: true})
	if os.Geteuid() != 0 {
		l := &Listener{overflow: []uint32{uint32(os.Geteuid())}}
		if _, err := l.peerOf(connection(t, path)); !errors.Is(err, ErrUnmapped) {
			t.Errorf("the error is %v", err)
		}
		return
	}
	answer := from(t, path, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}})
	if !strings.Contains(answer, "403 Forbidden") || !strings.Contains(answer, "no number on this machine") {
		t.Errorf("the answer is %s", answer)
	}
}

func connection(t *testing.T, path string) *net.UnixConn {
	t.Helper()
	conn, err := Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn.(*net.UnixConn)
}

// accounts gives one answer for every uid.
type accounts struct {
	known bool
	err   error
}

func (a accounts) ByUID(context.Context, uint32) (account.Account, bool, error) {
	return account.Account{}, a.known, a.err
}

// TestGate: a user whom the directory does not know is refused, and while it is away the
// uid of the kernel is enough.
func TestGate(t *testing.T) {
	for name, c := range map[string]struct {
		gate Gate
		want string
	}{
		"known":            {Gate{Accounts: accounts{known: true}}, "200 OK"},
		"unknown":          {Gate{Accounts: accounts{}}, "403 Forbidden"},
		"unknown, allowed": {Gate{Accounts: accounts{}, AllowUnknown: true}, "200 OK"},
		"away":             {Gate{Accounts: accounts{err: account.ErrAway}}, "200 OK"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "muster.sock")
			serve(t, path, c.gate)
			if answer := from(t, path, nil); !strings.Contains(answer, c.want) {
				t.Errorf("the answer is %s", answer)
			}
		})
	}
}

// TestNoPeer: a request that did not come by the socket is refused.
func TestNoPeer(t *testing.T) {
	here, there := net.Pipe()
	defer func() { _, _ = here.Close(), there.Close() }()
	if _, err := FromContext(Context(t.Context(), here)); !errors.Is(err, ErrNoPeer) {
		t.Errorf("the error is %v", err)
	}
}

// TestListen: what has the name before.
func TestListen(t *testing.T) {
	for name, c := range map[string]struct {
		before func(t *testing.T, path string)
		says   string
	}{
		"nothing":    {before: func(*testing.T, string) {}},
		"no folder":  {before: func(t *testing.T, path string) { must(t, os.Remove(filepath.Dir(path))) }},
		"a dead one": {before: dead},
		"half a start": {before: func(t *testing.T, path string) {
			dead(t, filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new"))
		}},
		"one of Muster": {before: func(t *testing.T, path string) {
			l, err := Listen(t.Context(), path)
			must(t, err)
			t.Cleanup(func() { must(t, l.Close()) })
		}, says: "another Muster listens there"},
		"one of another program": {before: func(t *testing.T, path string) {
			l, err := net.Listen("unix", path)
			must(t, err)
			t.Cleanup(func() { _ = l.Close() })
		}, says: "another server listens there"},
		"a file": {before: func(t *testing.T, path string) { must(t, os.WriteFile(path, nil, 0o600)) }, says: "is a file: it has to be a socket"},
		"a link": {before: func(t *testing.T, path string) { must(t, os.Symlink("/", path)) }, says: "is a symbolic link"},
		"a lock that is a link": {before: func(t *testing.T, path string) {
			must(t, os.Symlink(filepath.Join(filepath.Dir(path), "x"), path+".lock"))
		}, says: "opening the lock"},
		"a folder for all": {before: func(t *testing.T, path string) { must(t, os.Chmod(filepath.Dir(path), 0o777)) }, says: "chmod 0755"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "run", "muster.sock")
			must(t, os.Mkdir(filepath.Dir(path), 0o755))
			c.before(t, path)
			l, err := Listen(t.Context(), path)
			if c.says != "" {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("the error is %v", err)
				}
				return
			}
			must(t, err)
			works(t, l, path)
		})
	}
}

// works checks that users can connect, and that Close removes the socket.
func works(t *testing.T, l *Listener, path string) {
	t.Helper()
	connection(t, path)
	accepted, err := l.Accept()
	must(t, err)
	must(t, accepted.Close())
	for name, want := range map[string]os.FileMode{path: os.ModeSocket | 0o666, filepath.Dir(path): os.ModeDir | 0o755, path + ".lock": 0o600} {
		if info, err := os.Lstat(name); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v, want mode %v", name, info, err, want)
		}
	}
	if l.Addr().String() != path {
		t.Errorf("the address is %s", l.Addr())
	}
	must(t, l.Close())
	must(t, l.Close())
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
}

// dead leaves a socket without a server.
func dead(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	must(t, err)
	l.SetUnlinkOnClose(false)
	must(t, l.Close())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestListenAtFolderOfAnotherUser: the folder's owner could replace the socket.
func TestListenAtFolderOfAnotherUser(t *testing.T) {
	folder := "/proc" // of root, for a test of another user
	if os.Geteuid() == 0 {
		folder = t.TempDir()
		must(t, os.Chown(folder, 12345, 12345))
	}
	if _, err := Listen(t.Context(), filepath.Join(folder, "muster.sock")); err == nil || !strings.Contains(err.Error(), "belongs to uid") {
		t.Errorf("the error is %v", err)
	}
}

// TestLongPath: the kernel's limit of 107 bytes is not that of a path here.
func TestLongPath(t *testing.T) {
	folder := filepath.Join(t.TempDir(), strings.Repeat("long/", 60))
	path := filepath.Join(folder, strings.Repeat("n", maxName))
	l, err := Listen(t.Context(), path)
	must(t, err)
	works(t, l, path)
	if _, err := Listen(t.Context(), path+"n"); err == nil || !strings.Contains(err.Error(), "at most 75") {
		t.Errorf("the error is %v", err)
	}
	if _, err := Dial(t.Context(), path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after Close: %v", err)
	}
}

// TestCloseLeavesAnother: a socket that has replaced this one stays.
func TestCloseLeavesAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "muster.sock")
	l, err := Listen(t.Context(), path)
	must(t, err)
	must(t, os.Remove(path))
	dead(t, path)
	must(t, l.Close())
	if _, err := os.Lstat(path); err != nil {
		t.Error(err)
	}
}

// TestDialForeign: nothing is sent to a socket that another user has made, or at which
// another user listens.
func TestDialForeign(t *testing.T) {
	if os.Geteuid() != 0 {
		if err := trusted("x", uint32(os.Geteuid())+1); !foreign(err) {
			t.Errorf("the error is %v", err)
		}
		return
	}
	path := filepath.Join(t.TempDir(), "muster.sock")
	must(t, os.Chmod(filepath.Dir(path), 0o777))
	command := exec.CommandContext(context.WithoutCancel(t.Context()), "/proc/self/exe")
	command.Env = []string{asServer + "=" + path}
	command.SysProcAttr, command.Dir = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12345}}, "/"
	stop, err := command.StdinPipe()
	must(t, err)
	out, err := command.StdoutPipe()
	must(t, err)
	must(t, os.Chmod(filepath.Dir(filepath.Dir(path)), 0o755))
	must(t, command.Start())
	t.Cleanup(func() {
		_ = stop.Close()
		must(t, command.Wait())
	})
	if said, err := bufio.NewReader(out).ReadString('\n'); err != nil || said != "listening\n" {
		t.Fatalf("%v: %s", err, said)
	}
	if _, err := Dial(t.Context(), path); !foreign(err) || !strings.Contains(err.Error(), "uid 12345") {
		t.Errorf("a socket of another user: %v", err)
	}
	must(t, os.Chown(path, 0, 0)) // the file is root's, who listens is not
	if _, err := Dial(t.Context(), path); !foreign(err) || !strings.Contains(err.Error(), "uid 12345") {
		t.Errorf("a server of another user: %v", err)
	}
}

func foreign(err error) bool {
	_, is := errors.AsType[*ForeignError](err)
	return is
}

// TestDialNoSocket: what else can be there.
func TestDialNoSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "muster.sock")
	if _, err := Dial(t.Context(), path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nothing: %v", err)
	}
	dead(t, path)
	if _, err := Dial(t.Context(), path); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("a server that has ended: %v", err)
	}
	must(t, os.Remove(path))
	must(t, os.WriteFile(path, nil, 0o600))
	if _, err := Dial(t.Context(), path); err == nil || !strings.Contains(err.Error(), "is no socket") {
		t.Errorf("a file: %v", err)
	}
}
