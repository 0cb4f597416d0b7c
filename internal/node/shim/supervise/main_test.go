package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/shim/contract"
)

// shimEnv makes the test process a shim. The containers' processes do not
// inherit it: they get the spec's environment.
const shimEnv = "MUSTER_TEST_SHIM"

func TestMain(m *testing.M) {
	if os.Getenv(shimEnv) != "" {
		os.Exit(Main(os.Args))
	}
	os.Exit(m.Run())
}

// patience is far beyond what anything here takes.
const patience = 20 * time.Second

// shim is a shim as its muster sees it.
type shim struct {
	t       *testing.T
	dir     string
	socket  *net.UnixAddr
	process *exec.Cmd
	first   *net.UnixConn
	replies *json.Decoder
	gone    chan struct{} // closed once the shim has ended
}

// launch starts a shim for a shell script, and gives it its order.
func launch(t *testing.T, script string, change func(*contract.Spec)) *shim {
	t.Helper()
	s := prepare(t, script, change)
	s.send(s.first, contract.Order{HostPID: s.process.Process.Pid})
	return s
}

// prepare starts a shim, which waits for its order.
func prepare(t *testing.T, script string, change func(*contract.Spec)) *shim {
	t.Helper()
	dir := t.TempDir()
	spec := contract.Spec{ID: "pod/main/0", PodUID: "pod", Container: "main", Argv: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")}}
	if change != nil {
		change(&spec)
	}
	data, err := json.Marshal(spec)
	if err == nil {
		err = errors.Join(os.WriteFile(filepath.Join(dir, contract.SpecFile), data, 0o600), os.Mkdir(filepath.Join(dir, contract.LogFolder), 0o700))
	}
	if err != nil {
		t.Fatal(err)
	}
	folder, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = folder.Close() })
	// By way of the open folder, since the path of a socket must be short.
	socket := &net.UnixAddr{Name: fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), contract.SocketFile), Net: "unix"}
	listener, err := net.ListenUnix("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	listening, err := listener.File()
	if err != nil {
		t.Fatal(err)
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	conn, err := net.FileConn(ours)
	if err != nil {
		t.Fatal(err)
	}
	s := &shim{t: t, dir: dir, socket: socket, first: conn.(*net.UnixConn), replies: json.NewDecoder(conn), gone: make(chan struct{})}
	s.process = exec.Command("/proc/self/exe", dir)
	s.process.Env = append(os.Environ(), shimEnv+"=1")
	s.process.ExtraFiles = []*os.File{theirs, listening}
	s.process.Stderr = t.Output()
	s.process.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if err := s.process.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { defer close(s.gone); _ = s.process.Wait() }()
	_ = errors.Join(ours.Close(), theirs.Close(), listening.Close(), listener.Close())
	t.Cleanup(func() {
		_ = s.process.Process.Signal(syscall.SIGKILL)
		<-s.gone
		_ = s.first.Close()
	})
	return s
}

func (s *shim) send(conn *net.UnixConn, v any) {
	s.t.Helper()
	if err := json.NewEncoder(conn).Encode(v); err != nil {
		s.t.Fatal(err)
	}
}

// reply is the next word on the first connection.
func (s *shim) reply() contract.Reply {
	s.t.Helper()
	var r contract.Reply
	if err := errors.Join(s.first.SetReadDeadline(time.Now().Add(patience)), s.replies.Decode(&r)); err != nil {
		s.t.Fatal("waiting for the shim's word: ", err)
	}
	return r
}

// started waits for the start and returns the main process's number.
func (s *shim) started() int {
	s.t.Helper()
	for {
		switch r := s.reply(); {
		case r.Started:
			return r.PID
		case r.Exit != nil:
			s.t.Fatalf("the container ended before it was seen to start: %+v", r.Exit)
		}
	}
}

// exit waits for the end, and for the shim's.
func (s *shim) exit() contract.Exit {
	s.t.Helper()
	for {
		if r := s.reply(); r.Exit != nil {
			s.awaitGone()
			return *r.Exit
		}
	}
}

func (s *shim) awaitGone() {
	s.t.Helper()
	select {
	case <-s.gone:
	case <-time.After(patience):
		s.t.Fatal("the shim does not end")
	}
}

// ask makes a request of its own, as any muster can that finds the folder.
func (s *shim) ask(r contract.Request) contract.Reply {
	s.t.Helper()
	conn := s.dial()
	s.send(conn, r)
	var reply contract.Reply
	if err := errors.Join(conn.SetReadDeadline(time.Now().Add(patience)), json.NewDecoder(conn).Decode(&reply)); err != nil && !errors.Is(err, io.EOF) {
		s.t.Fatal("asking the shim: ", err)
	}
	return reply
}

// recorded is what the folder says of the end.
func (s *shim) recorded() (contract.Exit, error) {
	var exit contract.Exit
	data, err := os.ReadFile(filepath.Join(s.dir, contract.ExitFile))
	if err == nil {
		err = json.Unmarshal(data, &exit)
	}
	return exit, err
}

// dial connects to the control socket.
func (s *shim) dial() *net.UnixConn {
	s.t.Helper()
	conn, err := net.DialUnix("unix", nil, s.socket)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	return conn
}
