package supervise

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/shim/contract"
)

// watchers is a connection and its other end.
func watchers(t *testing.T) (other *os.File, c *conn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	other, c = os.NewFile(uintptr(fds[0]), "other"), newConn(fds[1])
	if err := other.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close(); c.close() })
	return other, c
}

func TestReceive(t *testing.T) {
	for _, c := range []struct {
		name, sent string
		want       error // nil: any error
		ok         bool
	}{
		{"a request", `{"op":"stop","grace":5}` + "\n", nil, true},
		{"in pieces", `{"op":"stop","grace":5` + strings.Repeat(" ", 10_000) + "}\n", nil, true},
		{"nothing", "", io.EOF, false},
		{"cut off", `{"op":"st`, io.ErrUnexpectedEOF, false},
		{"garbage", "stop!\n", nil, false},
		{"too long", strings.Repeat("x", lineLimit+8192), nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			other, conn := watchers(t)
			written := make(chan struct{})
			go func() {
				defer close(written)
				_, _ = other.WriteString(c.sent) // which fails once the line is too long
				_ = other.Close()
			}()
			var r contract.Request
			err := conn.receive(&r)
			conn.close()
			<-written
			switch {
			case c.ok && (err != nil || r.Op != contract.OpStop || r.Grace != 5):
				t.Errorf("got %+v, %v", r, err)
			case !c.ok && (err == nil || (c.want != nil && !errors.Is(err, c.want))):
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

func TestSendIsOneLine(t *testing.T) {
	other, conn := watchers(t)
	// Longer than the socket takes at once.
	long := contract.Reply{Error: strings.Repeat("e", 1<<20)}
	sent := make(chan error, 1)
	go func() { err := conn.send(long); conn.close(); sent <- err }()
	data, err := io.ReadAll(other)
	if err := errors.Join(err, <-sent); err != nil {
		t.Fatal(err)
	}
	var got contract.Reply
	if err := json.Unmarshal(data, &got); err != nil || got.Error != long.Error || bytes.Count(data, []byte("\n")) != 1 {
		t.Errorf("got %d bytes, %v", len(data), err)
	}
}

// folderGroup is a control group in a folder that has the shape of one.
func folderGroup(t *testing.T, g contract.Group, files map[string]string) groupFolder {
	t.Helper()
	g.Path = t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(g.Path, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := &supervisor{order: contract.Order{Groups: []contract.Group{g}}}
	if err := s.openGroups(); err != nil {
		t.Fatal(err.message)
	}
	t.Cleanup(func() { _ = unix.Close(s.groups[0].fd) })
	return s.groups[0]
}

func TestOutOfMemory(t *testing.T) {
	const oldKernel = "oom_kill_disable 0\nunder_oom 0\n"
	for _, c := range []struct {
		name  string
		group contract.Group
		files map[string]string
		want  bool
	}{
		{"version 2, none", contract.Group{Unified: true, Memory: true}, map[string]string{"memory.events": "low 0\nhigh 0\nmax 12\noom 1\noom_kill 0\noom_group_kill 0\n"}, false},
		{"version 2", contract.Group{Unified: true, Memory: true}, map[string]string{"memory.events": "low 0\nhigh 0\nmax 12\noom 1\noom_kill 2\noom_group_kill 1\n"}, true},
		{"version 2, without limits", contract.Group{Unified: true}, map[string]string{"memory.events": "oom_kill 2\n"}, false},
		{"version 1, none", contract.Group{Memory: true}, map[string]string{"memory.oom_control": oldKernel + "oom_kill 0\n"}, false},
		{"version 1", contract.Group{Memory: true}, map[string]string{"memory.oom_control": oldKernel + "oom_kill 1\n"}, true},
		{"version 1, a kernel that does not count", contract.Group{Memory: true}, map[string]string{"memory.oom_control": oldKernel}, false},
		{"gone", contract.Group{Unified: true, Memory: true}, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &supervisor{groups: []groupFolder{folderGroup(t, c.group, c.files)}}
			if got := s.outOfMemory(); got != c.want {
				t.Errorf("outOfMemory = %v", got)
			}
		})
	}
}

// TestKillAllByGroup: version 2 kills the tree as a whole. This process has no
// descendants that could be meant otherwise.
func TestKillAllByGroup(t *testing.T) {
	unified := folderGroup(t, contract.Group{Unified: true}, map[string]string{"cgroup.kill": ""})
	legacy := folderGroup(t, contract.Group{}, map[string]string{"cgroup.kill": ""})
	s := &supervisor{groups: []groupFolder{unified, legacy}}
	s.killAll()
	for group, want := range map[string]string{unified.Path: "1", legacy.Path: ""} {
		if got, err := os.ReadFile(filepath.Join(group, "cgroup.kill")); err != nil || string(got) != want {
			t.Errorf("%q was written to cgroup.kill, %v; want %q", got, err, want)
		}
	}
}

func TestGroupThatIsGone(t *testing.T) {
	s := &supervisor{order: contract.Order{Groups: []contract.Group{{Path: filepath.Join(t.TempDir(), "none")}}}}
	if err := s.openGroups(); err == nil || err.reason != contract.ReasonLimits {
		t.Errorf("openGroups = %+v, want that the limits cannot be set", err)
	}
}
