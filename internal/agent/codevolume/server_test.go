package codevolume

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// shelf has one snapshot for each namespace, and counts who fetches.
type shelf struct {
	mu      sync.Mutex
	fetched []string
	fails   error
	// slow, if not nil, is closed when a fetch may go on, which has begun once
	// something was received from begun.
	slow, begun chan struct{}
	ended       atomic.Int32
}

func (s *shelf) Fetch(ctx context.Context, namespace, digest, dst string) error {
	defer s.ended.Add(1)
	if s.slow != nil {
		s.begun <- struct{}{}
		select {
		case <-s.slow:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fetched = append(s.fetched, namespace+" "+digest[:10])
	if s.fails != nil {
		return s.fails
	}
	if err := os.MkdirAll(filepath.Join(dst, "lib"), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dst, "lib", "train.py"), []byte("code of "+namespace), 0o755); err != nil {
		return err
	}
	return os.Symlink("lib/train.py", filepath.Join(dst, "main.py"))
}

func (s *shelf) times() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.fetched)
}

const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// stage is a kubelet's folder with the driver in it.
type stage struct {
	t      *testing.T
	dir    string
	shelf  *shelf
	server *Server
	now    time.Time
	boot   string
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, dir: t.TempDir(), shelf: &shelf{}, now: time.Now(), boot: "b001"}
	s.restart()
	t.Cleanup(func() { // of a test that failed
		mounts, _ := filepath.Glob(filepath.Join(s.dir, "pods", "*", "mount"))
		for _, m := range mounts {
			_ = unix.Unmount(m, unix.MNT_DETACH)
		}
	})
	return s
}

func (s *stage) restart() {
	s.t.Helper()
	var err error
	if s.server, err = New(Options{Node: "node-1", KubeletDir: s.dir, Fetcher: s.shelf, Boot: s.boot, Now: func() time.Time { return s.now }}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) target(pod string) string {
	path := filepath.Join(s.dir, "pods", pod, "mount")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// empty is a pod's empty volume, as a kubelet makes it.
func (s *stage) empty(pod string) string {
	path := filepath.Join(s.dir, "pods", pod, "volumes", "kubernetes.io~empty-dir", v1alpha1.CodeCopyVolume)
	ready := filepath.Join(s.dir, "pods", pod, "plugins", "kubernetes.io~empty-dir", v1alpha1.CodeCopyVolume)
	if err := errors.Join(os.MkdirAll(path, 0o777), os.MkdirAll(ready, 0o750), os.WriteFile(filepath.Join(ready, "ready"), nil, 0o600)); err != nil {
		s.t.Fatal(err)
	}
	return path
}

func (s *stage) request(pod, namespace, job string) *csi.NodePublishVolumeRequest {
	s.empty(pod)
	return &csi.NodePublishVolumeRequest{VolumeId: "csi-" + pod, TargetPath: s.target(pod), VolumeContext: map[string]string{
		attributeSnapshot: digest, attributeJob: job, attributeNamespace: namespace, attributePod: pod, attributeEphemeral: "true",
		attributeCopy: v1alpha1.CodeCopyVolume,
	}}
}

func (s *stage) publish(r *csi.NodePublishVolumeRequest) {
	s.t.Helper()
	if _, err := s.server.NodePublishVolume(s.t.Context(), r); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) unpublish(pod string) {
	s.t.Helper()
	if _, err := s.server.NodeUnpublishVolume(s.t.Context(), &csi.NodeUnpublishVolumeRequest{VolumeId: "csi-" + pod, TargetPath: s.target(pod)}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) reads(pod, name string) string {
	s.t.Helper()
	raw, err := os.ReadFile(filepath.Join(s.target(pod), name))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(raw)
}

// tidies does the hourly clean-up of the driver.
func (s *stage) tidies() error {
	return errors.Join(s.server.depot.tidy(), s.server.depot.removeTrees(context.Background()))
}

func (s *stage) kept(kind string) int { return len(glob(s.server.folder(), kind, "*")) }

// Each pod has a copy that it may write to, in its own empty volume; it is fetched
// once for a namespace.
func TestVolumes(t *testing.T) {
	s := newStage(t)
	s.publish(s.request("a0", "team", "job-a"))
	s.publish(s.request("a1", "team", "job-a"))
	s.publish(s.request("b0", "team", "job-b"))
	s.publish(s.request("c0", "other", "job-a"))
	if got := s.reads("a0", "main.py"); got != "code of team" {
		t.Errorf("it reads %q", got)
	}
	if got := s.reads("c0", "main.py"); got != "code of other" {
		t.Errorf("in another namespace it reads %q", got)
	}
	if n := s.shelf.times(); n != 2 {
		t.Errorf("fetched %d times: %v", n, s.shelf.fetched)
	}
	if err := os.WriteFile(filepath.Join(s.target("a0"), "lib", "new"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{"a1", "b0"} {
		if _, err := os.Stat(filepath.Join(s.target(other), "lib", "new")); err == nil {
			t.Errorf("%s sees it", other)
		}
	}
	s.publish(s.request("a0", "team", "job-a")) // asked for again
	if got := s.reads("a0", "lib/new"); got != "x" {
		t.Errorf("asked for again it reads %q", got)
	}
	// It counts as the pod's, and nobody else's.
	if text, err := os.ReadFile(filepath.Join(s.empty("a0"), copyName, "lib", "new")); err != nil || string(text) != "x" {
		t.Errorf("in the pod's own volume there is %q, %v", text, err)
	}
	s.unpublish("a0")
	if got := s.reads("a1", "main.py"); got != "code of team" {
		t.Errorf("after the other went it reads %q", got)
	}
	for _, pod := range []string{"a1", "b0", "c0", "c0", "never"} {
		s.unpublish(pod)
	}
	if s.kept("checkouts") != 0 || s.kept("volumes") != 0 {
		t.Errorf("%d checkouts and %d records are left", s.kept("checkouts"), s.kept("volumes"))
	}
	// The trees stay for the next, for a while.
	s.publish(s.request("d0", "team", "job-d"))
	if n := s.shelf.times(); n != 2 {
		t.Errorf("fetched again: %v", s.shelf.fetched)
	}
	s.now = s.now.Add(25 * time.Hour)
	if err := s.tidies(); err != nil {
		t.Fatal(err)
	}
	if left := glob(s.server.folder(), "trees", "*", "*"); len(left) != 1 || !strings.Contains(left[0], "team") {
		t.Errorf("a day later there is %v; that of namespace team is in use", left)
	}
	s.unpublish("d0")
}

// Nobody writes where it would count as nobody's.
func TestReadOnly(t *testing.T) {
	for name, change := range map[string]func(*csi.NodePublishVolumeRequest){
		"as it asks":     func(r *csi.NodePublishVolumeRequest) { r.Readonly = true },
		"without a copy": func(r *csi.NodePublishVolumeRequest) { delete(r.VolumeContext, attributeCopy) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			r := s.request("a0", "team", "job-a")
			change(r)
			s.publish(r)
			if got := s.reads("a0", "main.py"); got != "code of team" {
				t.Errorf("it reads %q", got)
			}
			if err := os.WriteFile(filepath.Join(s.target("a0"), "new"), nil, 0o600); !errors.Is(err, unix.EROFS) {
				t.Errorf("writing: %v", err)
			}
			if there := glob(s.empty("a0"), "*"); len(there) != 0 {
				t.Errorf("in the pod's own volume there is %v", there)
			}
			s.unpublish("a0")
		})
	}
}

// A pod has to have the volume in which its copy is to be.
func TestACopyThatHasNoPlace(t *testing.T) {
	s := newStage(t)
	r := s.request("a0", "team", "job-a")
	if err := os.RemoveAll(filepath.Join(s.dir, "pods", "a0", "plugins")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*copyLook)
	defer cancel()
	if _, err := s.server.NodePublishVolume(ctx, r); err == nil || !strings.Contains(err.Error(), "pod a0 has no emptyDir muster-code-copy that a container mounts") {
		t.Errorf("it says %v", err)
	}
	s.publish(s.request("a0", "team", "job-a"))
	s.unpublish("a0")
}

// What a crash leaves behind is finished or removed by the next agent.
func TestAfterACrash(t *testing.T) {
	s := newStage(t)
	s.publish(s.request("a0", "team", "job-a"))
	// 1. The agent was started again: it knows the volume.
	s.restart()
	s.publish(s.request("a1", "team", "job-a"))
	s.unpublish("a0")
	if s.reads("a1", "main.py") == "" {
		t.Error("the other volume is empty")
	}
	// 2. The machine was: nothing is mounted, and the pod's folder is gone.
	if err := unix.Unmount(s.target("a1"), 0); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(s.dir, "pods", "a1")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(s.server.folder(), "checkouts", ".new-1"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.restart()
	if err := s.tidies(); err != nil {
		t.Fatal(err)
	}
	if s.kept("checkouts") != 0 || s.kept("volumes") != 0 {
		t.Errorf("left: %v", glob(s.server.folder(), "*", "*"))
	}
}

// A fetch that fails mounts nothing, says why, and is tried again.
func TestNoCode(t *testing.T) {
	s := newStage(t)
	s.shelf.fails = errors.New("it is not stored in that namespace")
	_, err := s.server.NodePublishVolume(t.Context(), s.request("a0", "team", "job-a"))
	if status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "not stored in that namespace") {
		t.Errorf("it says %v", err)
	}
	s.shelf.fails = nil
	s.publish(s.request("a0", "team", "job-a"))
	s.unpublish("a0")
}

// A kubelet that gives up and asks again finds what it asked for at first.
func TestASlowFetch(t *testing.T) {
	s := newStage(t)
	s.shelf.slow, s.shelf.begun = make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		_, err := s.server.NodePublishVolume(ctx, s.request("a0", "team", "job-a"))
		first <- err
	}()
	<-s.shelf.begun
	cancel()
	if err := <-first; err == nil || !strings.Contains(err.Error(), "still on its way") {
		t.Errorf("it says %v", err)
	}
	close(s.shelf.slow)
	s.publish(s.request("a0", "team", "job-a"))
	if n := s.shelf.times(); n != 1 {
		t.Errorf("fetched %d times", n)
	}
	s.unpublish("a0")
}

func TestBadVolumes(t *testing.T) {
	s := newStage(t)
	for name, c := range map[string]struct {
		change func(*csi.NodePublishVolumeRequest)
		says   string
	}{
		"a path for a digest":  {func(r *csi.NodePublishVolumeRequest) { r.VolumeContext[attributeSnapshot] = "sha256:../../etc" }, "digest of a snapshot"},
		"a path for a job":     {func(r *csi.NodePublishVolumeRequest) { r.VolumeContext[attributeJob] = "../x" }, "job's UID"},
		"no word on the pod":   {func(r *csi.NodePublishVolumeRequest) { delete(r.VolumeContext, attributeNamespace) }, "podInfoOnMount"},
		"a persistent volume":  {func(r *csi.NodePublishVolumeRequest) { delete(r.VolumeContext, attributeEphemeral) }, "inline volumes"},
		"a path for an id":     {func(r *csi.NodePublishVolumeRequest) { r.VolumeId = "../x" }, "the volume's id"},
		"a path for a copy":    {func(r *csi.NodePublishVolumeRequest) { r.VolumeContext[attributeCopy] = "../../etc" }, "the name of an emptyDir"},
		"a path for a pod":     {func(r *csi.NodePublishVolumeRequest) { r.VolumeContext[attributePod] = "../x" }, "the name of an emptyDir"},
		"a path with a detour": {func(r *csi.NodePublishVolumeRequest) { r.TargetPath = "/a/../b" }, "target path"},
	} {
		t.Run(name, func(t *testing.T) {
			r := s.request("a0", "team", "job-a")
			c.change(r)
			_, err := s.server.NodePublishVolume(t.Context(), r)
			if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), c.says) {
				t.Errorf("it says %v, want %q", err, c.says)
			}
		})
	}
	if s.shelf.times() != 0 {
		t.Error("something was fetched")
	}
}

// The kubelet finds the driver by its socket, as kubelets look for plugins.
func TestRegistration(t *testing.T) {
	s := newStage(t)
	registry := filepath.Join(s.dir, "plugins_registry")
	if err := os.Mkdir(registry, 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.server.Run(ctx) }()
	dial := func(path string) *grpc.ClientConn {
		c, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	info, err := registerapi.NewRegistrationClient(dial(filepath.Join(registry, "code.muster.dev-reg.sock"))).GetInfo(ctx, &registerapi.InfoRequest{})
	if err != nil || info.Type != registerapi.CSIPlugin || info.Name != "code.muster.dev" {
		t.Fatalf("it says %v, %v", info, err)
	}
	node, err := csi.NewNodeClient(dial(info.Endpoint)).NodeGetInfo(ctx, &csi.NodeGetInfoRequest{})
	if err != nil || node.NodeId != "node-1" {
		t.Errorf("the driver says %v, %v", node, err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
