package stagevolume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/foreman"
	"github.com/muster-dev/muster/internal/foreman/shift"
	"github.com/muster-dev/muster/internal/foreman/worker"
)

const workName = "0b1c.stage"

// node is a driver before a real foreman, without a kubelet.
type node struct {
	*testing.T
	dir     string
	foreman *foreman.Foreman
	made    map[string]string
	mu      sync.Mutex
}

func newNode(t *testing.T) *node {
	if os.Geteuid() != 0 {
		t.Fatal("mounting takes root")
	}
	n := &node{T: t, dir: t.TempDir(), made: map[string]string{}}
	var err error
	if n.foreman, err = foreman.New(foreman.Options{Dir: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	n.run(n.foreman.Run)
	return n
}

// run runs something until the test ends, or until what it returns is called.
func (n *node) run(f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(n.Context())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			n.Error(err)
		}
	})
	n.Cleanup(stop)
	return stop
}

func (n *node) work(command string, owner string, names ...string) *foreman.Work {
	n.Helper()
	s := foreman.Spec{
		Name: workName, Owner: owner, Program: shift.Program{Command: []string{"sh", "-c", command}, Inputs: []string{"in"}, Carried: true}, Tries: 2,
		Fetch: func(_ context.Context, d foreman.Datum, folder *os.Root) error {
			return errors.Join(folder.Mkdir("in", 0o755), folder.WriteFile("in/name", []byte(d.Name), 0o600))
		},
		Record: func(_ context.Context, results []foreman.Result) error {
			n.mu.Lock()
			defer n.mu.Unlock()
			for i := range results {
				text, err := os.ReadFile(filepath.Join(results[i].Folder, shift.OutFolder, "made"))
				if err != nil {
					return err
				}
				n.made[results[i].Name] = string(text)
			}
			return nil
		},
	}
	for i, name := range names {
		s.Datums = append(s.Datums, foreman.Datum{ID: fmt.Sprint(i), Name: name})
	}
	w, err := n.foreman.Open(n.Context(), s)
	if err != nil {
		n.Fatal(err)
	}
	return w
}

// server makes the driver, whose door is the foreman itself.
func (n *node) server() *Server {
	n.Helper()
	s, err := New(Options{
		Node: "n1", KubeletDir: n.dir,
		Worker: func(dir string) (string, error) {
			path := filepath.Join(dir, "muster-worker-1")
			return path, errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755))
		},
		Pass: func(w http.ResponseWriter, r *http.Request, namespace, path string) {
			rest, ok := strings.CutPrefix(path, "/pods/pod-1")
			if !ok {
				http.Error(w, "what pod is that: "+path, http.StatusForbidden)
				return
			}
			r.URL.Path = rest
			n.foreman.HandlerFor(namespace).ServeHTTP(w, r)
		},
	})
	if err == nil {
		err = os.MkdirAll(filepath.Join(n.dir, "plugins_registry"), 0o755)
	}
	if err != nil {
		n.Fatal(err)
	}
	return s
}

func request(target string, change ...func(*csi.NodePublishVolumeRequest)) *csi.NodePublishVolumeRequest {
	r := &csi.NodePublishVolumeRequest{VolumeId: "csi-1", TargetPath: target, Readonly: true, VolumeContext: map[string]string{
		attributeWork: workName, attributeNamespace: "team", attributePod: "pod-1", attributeEphemeral: "true",
	}}
	for _, f := range change {
		f(r)
	}
	return r
}

func (n *node) publish(s *Server) string {
	n.Helper()
	target := filepath.Join(n.dir, "pods", "pod-1", "volumes", "mount")
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		n.Fatal(err)
	}
	if _, err := s.NodePublishVolume(n.Context(), request(target)); err != nil {
		n.Fatal(err)
	}
	n.Cleanup(func() { _ = unix.Unmount(target, unix.MNT_DETACH) })
	return target
}

func (n *node) hire(target string) error {
	return worker.Run(n.Context(), worker.Options{Post: target, Work: workName, Scratch: n.TempDir(), Name: "w", Member: "0", Environ: os.Environ(), Out: io.Discard})
}

// A worker that sees nothing but the volume computes, also where the agent is
// replaced under it.
func TestPost(t *testing.T) {
	n := newNode(t)
	gate := filepath.Join(t.TempDir(), "gate")
	// The datum that comes second, whichever it is, waits for the gate.
	w := n.work(`mkdir `+gate+`.first 2>/dev/null || until [ -e `+gate+` ]; do sleep 0.05; done; cp $MUSTER_INPUT_IN/name $MUSTER_OUTPUT/made`, "team", "a", "b")
	first := n.server()
	stop := n.run(first.Run)
	target := n.publish(first)
	if _, err := first.NodePublishVolume(t.Context(), request(target)); err != nil {
		t.Errorf("asked again: %v", err)
	}
	if err := os.WriteFile(filepath.Join(target, "x"), nil, 0o600); !errors.Is(err, unix.EROFS) {
		t.Errorf("a pod may write into its post: %v", err)
	}
	if info, err := os.Stat(filepath.Join(target, ProgramFile)); err != nil || info.Mode()&0o111 == 0 {
		t.Errorf("the program: %v, %v", info, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- n.hire(target) }()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(gate + ".first"); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("nothing was computed: %+v", w.Status())
		}
	}
	stop()
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	second := n.server()
	n.run(second.Run)
	if !w.Linger(t.Context(), 30*time.Second) {
		t.Fatalf("%+v", w.Status())
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n.made["a"] != "a" || n.made["b"] != "b" {
		t.Errorf("made %v", n.made)
	}
	for range 2 {
		if _, err := second.NodeUnpublishVolume(t.Context(), &csi.NodeUnpublishVolumeRequest{VolumeId: "csi-1", TargetPath: target}); err != nil {
			t.Error(err)
		}
	}
	for _, path := range []string{target, second.folderOf("csi-1"), second.recordOf("csi-1")} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
}

// A post is one work's, and a namespace's.
func TestOthersWork(t *testing.T) {
	n := newNode(t)
	n.work("true", "others", "a")
	s := n.server()
	n.run(s.Run)
	target := n.publish(s)
	if err := n.hire(target); err == nil || !strings.Contains(err.Error(), "another's") {
		t.Errorf("a work of another namespace: %v", err)
	}
	folder, err := os.Open(target)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = folder.Close() }()
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), shift.SocketFile))
	}}}
	for _, path := range []string{"/shift/0b1c.other", "/shift/0b1c.stage2", "/v1/reports", "/shift/0b1c.stage/../../v1/reports", "/shift/0b1c.stage/%2e%2e/x"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://foreman"+path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusNotFound {
			t.Errorf("%s is answered with %d", path, answer.StatusCode)
		}
	}
}

// What is left of pods that are gone is removed by the next agent.
func TestLeftOver(t *testing.T) {
	n := newNode(t)
	s := n.server()
	if err := s.record(post{Handle: "csi-9", Namespace: "team", Pod: "pod-9", Work: workName, Target: filepath.Join(n.dir, "pods", "gone", "mount")}); err != nil {
		t.Fatal(err)
	}
	if err := s.furnish(s.folderOf("csi-9")); err != nil {
		t.Fatal(err)
	}
	if err := s.resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{s.folderOf("csi-9"), s.recordOf("csi-9")} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
}

func TestRefused(t *testing.T) {
	n := newNode(t)
	s := n.server()
	set := func(key, value string) func(*csi.NodePublishVolumeRequest) {
		return func(r *csi.NodePublishVolumeRequest) { r.VolumeContext[key] = value }
	}
	for name, c := range map[string]struct {
		change func(*csi.NodePublishVolumeRequest)
		says   string
	}{
		"no work":            {set(attributeWork, ""), "the attribute work"},
		"a path for a work":  {set(attributeWork, "../x.y"), "the attribute work"},
		"no pod":             {set(attributePod, ""), "podInfoOnMount"},
		"a path for a pod":   {set(attributePod, "../x"), "podInfoOnMount"},
		"no inline volume":   {set(attributeEphemeral, "false"), "inline volumes"},
		"no target":          {func(r *csi.NodePublishVolumeRequest) { r.TargetPath = "x" }, "target path"},
		"a path for a name":  {func(r *csi.NodePublishVolumeRequest) { r.VolumeId = "../x" }, "the volume's id"},
		"an odd namespace":   {set(attributeNamespace, "../x"), "podInfoOnMount"},
		"a slash in a stage": {set(attributeWork, "0b.x/y"), "the attribute work"},
	} {
		if _, err := s.NodePublishVolume(t.Context(), request(filepath.Join(n.dir, "t"), c.change)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
