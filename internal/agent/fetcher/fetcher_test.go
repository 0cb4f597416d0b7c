//go:build linux

package fetcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/cache"
	"github.com/muster-dev/muster/internal/data/crafted"
	"github.com/muster-dev/muster/internal/environment/source"
)

// TestFetch fetches parts of two namespaces and code, at once.
func TestFetch(t *testing.T) {
	s := newStage(t)
	s.start()
	big := make([]byte, 20<<20)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(big)
	whole := s.put("team", map[string]string{"a/b": "1", "c": "2", "big": string(big)})
	part := whole
	part.Path = "a"
	other := s.put("other", map[string]string{"x": "3"})
	snapshot, err := s.code.Snapshot(t.Context(), s.plant(map[string]string{"lib/train.py": "print()"}), source.Options{})
	must(t, err)
	var told atomic.Int64
	var group errgroup.Group
	group.Go(func() error {
		return s.fetcher.Ensure(t.Context(), whole, nil, func(p data.Progress) { told.Store(p.TotalBytes) })
	})
	group.Go(func() error { return s.fetcher.Ensure(t.Context(), part, &cache.Spare{}, nil) })
	group.Go(func() error { return s.fetcher.Ensure(t.Context(), other, nil, nil) })
	code := filepath.Join(s.folder(Code), "team", "tree")
	group.Go(func() error { return s.fetcher.Trees(Code).Fetch(t.Context(), "team", snapshot.Digest, code) })
	must(t, group.Wait())
	if told.Load() != int64(len(big))+2 {
		t.Errorf("progress is told of %d bytes in all", told.Load())
	}
	for path, want := range map[string]string{
		s.ensure(whole) + "/a/b": "1", s.ensure(whole) + "/big": string(big), s.ensure(part) + "/b": "1", s.ensure(other) + "/x": "3", code + "/lib/train.py": "print()",
	} {
		got, err := os.ReadFile(path)
		must(t, err)
		if string(got) != want {
			t.Errorf("%s has %d bytes that are not those of the source", path, len(got))
		}
		info, err := os.Lstat(path)
		must(t, err)
		if owner := info.Sys().(*syscall.Stat_t).Uid; hasOwnUser() && owner != user {
			t.Errorf("%s is of user %d", path, owner)
		}
	}
	if disk, err := s.fetcher.Disk(); err != nil || disk <= 0 {
		t.Errorf("the disk has %d bytes: %v", disk, err)
	}
	if _, here := s.fetcher.Path(t.Context(), strings.Repeat("0", 64)); here {
		t.Error("something is here that was never fetched")
	}
	if err := s.fetcher.Trees(Code).Fetch(t.Context(), "team", snapshot.Digest, filepath.Join(s.folder(Code), "other", "..", "..", "x")); err == nil {
		t.Error("a tree was fetched outside of its folder")
	}
}

// TestRights compares the rights of the process with its status in /proc.
func TestRights(t *testing.T) {
	s := newStage(t)
	s.start()
	s.ensure(s.put("team", map[string]string{"a": "1"}))
	pid := s.process()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must(t, err)
	lines := map[string]string{"NoNewPrivs:": "1"}
	if hasOwnUser() {
		for _, of := range []string{"CapInh:", "CapPrm:", "CapEff:", "CapAmb:"} {
			lines[of] = "0000000000000000"
		}
		lines["Uid:"] = strings.TrimSpace(strings.Repeat(fmt.Sprint(user)+" ", 4))
		lines["Gid:"], lines["Groups:"] = lines["Uid:"], ""
		for _, of := range []string{"net", "pid", "ipc"} {
			theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, of))
			must(t, err)
			ours, err := os.Readlink("/proc/self/ns/" + of)
			must(t, err)
			if theirs == ours {
				t.Errorf("the process shares the %s namespace with the agent", of)
			}
		}
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if want, is := lines[fields[0]]; is && strings.Join(fields[1:], " ") != want {
			t.Errorf("the kernel says %q, want %q", strings.TrimSpace(line), want)
		}
		delete(lines, fields[0])
	}
	if len(lines) > 0 {
		t.Errorf("the kernel says nothing of %v", lines)
	}
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil || strings.TrimSuffix(strings.Trim(string(environment), "\x00"), "\x00MUSTER_LANDLOCK=1") != "TZ=UTC" {
		t.Errorf("its environment is %q: %v", environment, err)
	}
}

// TestErrors: errors arrive as they are.
func TestErrors(t *testing.T) {
	s := newStage(t)
	s.limit = 1000
	s.start()
	hostile, err := crafted.Store(t.Context(), s.stores["team"], -1, -1, crafted.Entry{Path: "a", Target: "../outside"})
	must(t, err)
	must(t, hostile.Contents(t.Context()))
	for name, c := range map[string]struct {
		part                 Part
		unfit, missing, room bool
	}{
		"a link out":          {part: Part{Namespace: "team", Commit: hostile.ID.String()}, unfit: true},
		"no such commit":      {part: Part{Namespace: "team", Commit: strings.Repeat("1", 64)}, missing: true},
		"no such path":        {part: Part{Namespace: "team", Commit: s.put("team", map[string]string{"a": "1"}).Commit, Path: "b"}, missing: true},
		"of another":          {part: Part{Namespace: "other", Commit: s.put("team", map[string]string{"a": "7"}).Commit}, missing: true},
		"more than fits":      {part: s.put("team", map[string]string{"a": strings.Repeat("1", 2000)}), room: true},
		"no commit":           {part: Part{Namespace: "team", Commit: "../x"}},
		"a path as namespace": {part: Part{Namespace: "../team", Commit: hostile.ID.String()}},
	} {
		t.Run(name, func(t *testing.T) {
			err := s.fetcher.Ensure(t.Context(), c.part, nil, nil)
			room, _ := errors.AsType[*cache.RoomError](err)
			if err == nil || data.Unfit(err) != c.unfit || errors.Is(err, fs.ErrNotExist) != c.missing || (room != nil) != c.room {
				t.Errorf("the error is %v: unfit %v, missing %v, room %v", err, data.Unfit(err), errors.Is(err, fs.ErrNotExist), room)
			}
			if c.room && !room.Never() {
				t.Errorf("%+v says that it may fit later", room)
			}
		})
	}
	if left, _ := filepath.Glob(s.dir + "/outside"); len(left) != 0 {
		t.Errorf("there is %v", left)
	}
}

// TestKilled: the process is killed while it fetches; the fetch fails, and the next goes on
// where it was.
func TestKilled(t *testing.T) {
	s := newStage(t)
	s.start()
	part := s.put("team", map[string]string{"a": "1"})
	began := make(chan struct{})
	hold, once := make(chan struct{}), sync.Once{}
	s.gate = func(ctx context.Context) {
		once.Do(func() { close(began) })
		select {
		case <-hold:
		case <-ctx.Done():
		}
	}
	failed := make(chan error, 1)
	go func() { failed <- s.fetcher.Ensure(t.Context(), part, nil, nil) }()
	<-began
	must(t, syscall.Kill(s.process(), syscall.SIGKILL))
	if err := <-failed; err == nil || errors.Is(err, fs.ErrNotExist) || data.Unfit(err) {
		t.Errorf("the fetch ended with %v", err)
	}
	close(hold)
	s.again(func() error { return s.fetcher.Ensure(t.Context(), part, nil, nil) })
	s.ensure(part)
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	if !strings.Contains(s.log.text.String(), "signal: killed") {
		t.Errorf("the agent logged %q", s.log.text.String())
	}
}

// TestEnded: a caller that gives up ends the fetch, and the end of the agent ends the process.
func TestEnded(t *testing.T) {
	s := newStage(t)
	s.start()
	part := s.put("team", map[string]string{"a": "1"})
	began, gone := make(chan struct{}), make(chan struct{})
	s.gate = func(ctx context.Context) {
		close(began)
		<-ctx.Done()
		close(gone)
	}
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() { failed <- s.fetcher.Ensure(ctx, part, nil, nil) }()
	<-began
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("the fetch ended with %v", err)
	}
	<-gone // the process does not ask for it any more
	pid := s.process()
	s.end()
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the process %d is left: %v", pid, err)
	}
	s.gate = nil
	s.start()
	s.ensure(part)
}

// TestFilesOfEarlierAgents uses the files that an agent of an earlier version fetched as root,
// and removes them if there is no room.
func TestFilesOfEarlierAgents(t *testing.T) {
	s := newStage(t)
	s.limit = 3000
	old := s.put("team", map[string]string{"a/b": strings.Repeat("1", 1000), "c": "2"})
	earlier, err := NewLocal(cache.Options{Dir: s.folder(parts), Guarded: true}, func(ctx context.Context, p Part) (*data.Store, error) {
		return data.Open(ctx, data.Options{Backend: s.stores[p.Namespace]})
	})
	must(t, err)
	// The folder is of this version, as after a return to an earlier one.
	if hasOwnUser() {
		must(t, os.Lchown(s.folder(parts), user, user))
	}
	must(t, earlier.Ensure(t.Context(), old, nil, nil))
	must(t, os.MkdirAll(filepath.Join(s.folder(Code), "team"), 0o700))
	s.start()
	key, err := s.fetcher.Key(t.Context(), old)
	must(t, err)
	path, here := s.fetcher.Path(t.Context(), cache.Scoped("team", key))
	if !here {
		t.Fatal("what was fetched before is gone")
	}
	s.mu.Lock()
	s.inUse = map[string]bool{cache.Scoped("team", key): true}
	s.mu.Unlock()
	next := s.put("team", map[string]string{"n": strings.Repeat("3", 2500)})
	if err := s.fetcher.Ensure(t.Context(), next, nil, nil); err == nil {
		t.Error("there was room for it, although the rest is in use")
	}
	s.mu.Lock()
	s.inUse = nil
	s.mu.Unlock()
	s.ensure(next)
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: %v", path, err)
	}
	snapshot, err := s.code.Snapshot(t.Context(), s.plant(map[string]string{"a": "1"}), source.Options{})
	must(t, err)
	must(t, s.fetcher.Trees(Code).Fetch(t.Context(), "team", snapshot.Digest, filepath.Join(s.folder(Code), "team", "new")))
}

// TestLogWriter logs lines of the process: without control characters, and up to a number and a
// length.
func TestLogWriter(t *testing.T) {
	var log lines
	s := &logWriter{log: slog.New(slog.NewTextHandler(&log, nil))}
	for _, text := range []string{"half ", "a line\nlevel=ERROR \x1b[2J\n", strings.Repeat("x", 3*longestLine) + "\n", strings.Repeat("more\n", 2*mostSaid), "end"} {
		if n, err := s.Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("%d of %d bytes are written: %v", n, len(text), err)
		}
	}
	got := log.text.String()
	for want, times := range map[string]int{`line="half a line"`: 1, `line="level=ERROR  [2J"`: 1, "line=more": mostSaid - 3, "left out": 1, strings.Repeat("x", longestLine): 1, strings.Repeat("x", longestLine+1): 0} {
		if n := strings.Count(got, want); n != times {
			t.Errorf("%.40q is logged %d times, want %d", want, n, times)
		}
	}
}

// TestUpstream sends requests to the agent that it has to refuse.
func TestUpstream(t *testing.T) {
	s := newStage(t)
	s.start()
	part := s.put("team", map[string]string{"a": "1"})
	done := s.fetcher.upstream.serve("team")
	defer done()
	agent := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", s.fetcher.socket(agentSocket))
	}}}
	s.ensure(part) // the agent listens
	commit := "/data/commits/" + part.Commit
	s.mu.Lock()
	for _, asked := range s.asked {
		if at, is := strings.CutPrefix(asked, "team"); is && strings.Contains(at, part.Commit) {
			commit = at
		}
	}
	s.mu.Unlock()
	for path, want := range map[string]int{
		"/pods/v1/namespaces/team" + commit:                                            http.StatusOK,
		"/ahead/v1/namespaces/team" + commit:                                           http.StatusOK,
		"/pods/v1/namespaces/other" + commit:                                           http.StatusForbidden,
		"/elsewhere/v1/namespaces/team" + commit:                                       http.StatusForbidden,
		"/pods/v1/namespaces/team/data/leases/x":                                       http.StatusForbidden,
		"/pods/v1/namespaces/team/data?prefix=commits/":                                http.StatusForbidden,
		"/pods/v1/namespaces/team/why/job":                                             http.StatusForbidden,
		"/pods/v1/namespaces/team/s3-keys":                                             http.StatusForbidden,
		"/pods/v1/namespaces/team/code/x":                                              http.StatusForbidden,
		"/pods/v1/namespaces/team/code/sha256:" + strings.Repeat("0", 64) + "/../../x": http.StatusForbidden,
		"/pods/v1/namespaces/team/environments/" + strings.Repeat("0", 63):             http.StatusForbidden,
		"/pods/v1/namespaces/te%2Fam" + commit:                                         http.StatusForbidden,
		pathInUse:                                                                      http.StatusOK,
		"/":                                                                            http.StatusNotFound,
	} {
		got, err := agent.Get("http://agent" + path)
		must(t, err)
		_, _ = io.Copy(io.Discard, got.Body)
		_ = got.Body.Close()
		if got.StatusCode != want && (want != http.StatusForbidden || got.StatusCode != http.StatusNotFound) {
			t.Errorf("%s: %d, want %d", path, got.StatusCode, want)
		}
	}
	got, err := agent.Post("http://agent/pods/v1/namespaces/team"+commit, "text/plain", strings.NewReader("x"))
	must(t, err)
	_ = got.Body.Close()
	if got.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("a POST is answered with %d", got.StatusCode)
	}
}

// TestWrongArguments starts the process as a user would.
func TestWrongArguments(t *testing.T) {
	var said strings.Builder
	for _, args := range [][]string{nil, {"--folders"}, {"--what"}, {"--limit=x", "--folders=data"}} {
		if code := Main(t.Context(), args, &said); code != 2 {
			t.Errorf("%v: exit code %d", args, code)
		}
	}
}
