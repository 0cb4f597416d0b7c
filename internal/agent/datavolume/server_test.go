package datavolume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/agent/inline"
)

// What several pods of a node read is fetched once, and nobody can write to it; what
// another namespace has it does not give.
func TestOneFetchForAllPods(t *testing.T) {
	s := newStage(t)
	commit, key := s.put("team", map[string]string{"train/0": noise(1, 2<<20), "labels.csv": "a,b"})
	before := s.stores["team"].read.Load()
	first, second := s.later(t.Context(), s.request("a0", "team", commit)), s.later(t.Context(), s.request("a1", "team", commit, attributeKey, key))
	must(t, errors.Join(<-first, <-second))
	s.publish(s.request("b0", "team", commit, attributeKey, key))
	s.publish(s.request("b0", "team", commit, attributeKey, key)) // asked for again
	if read := s.stores["team"].read.Load() - before; read > 3<<20 {
		t.Errorf("%d bytes were read for 2 MiB", read)
	}
	for _, pod := range []string{"a0", "a1", "b0"} {
		if s.reads(pod, "labels.csv") != "a,b" || s.reads(pod, "train/0") != noise(1, 2<<20) {
			t.Errorf("%s reads something else", pod)
		}
		if err := os.WriteFile(filepath.Join(s.target(pod), "new"), nil, 0o600); !errors.Is(err, unix.EROFS) {
			t.Errorf("%s writes: %v", pod, err)
		}
		d := s.hears(types.UID(pod), v1alpha1.DataMounted, "")
		if d.Mounted != 1 || d.MountedTime == nil {
			t.Errorf("of %s is said %+v", pod, d)
		}
	}
	// The key is no proof of anything.
	_, err := s.server.NodePublishVolume(t.Context(), s.request("c0", "other", commit, attributeKey, key))
	if err == nil || !strings.Contains(err.Error(), "not in the store of this namespace") {
		t.Errorf("another namespace hears %v", err)
	}
	s.hears("c0", v1alpha1.DataLost, "digits@main: it is not in the store")
	for _, pod := range []string{"a0", "a1", "b0", "b0", "c0", "never"} {
		s.unpublish(pod)
	}
	if left := s.kept("volumes"); len(left) != 0 {
		t.Errorf("records are left: %v", left)
	}
	// It stays for the next.
	before = s.stores["team"].read.Load()
	s.publish(s.request("d0", "team", commit, attributeKey, key))
	if read := s.stores["team"].read.Load() - before; read != 0 {
		t.Errorf("%d bytes were read again", read)
	}
	s.unpublish("d0")
}

// A part of a commit is what its path names.
func TestAPart(t *testing.T) {
	s := newStage(t)
	commit, _ := s.put("team", map[string]string{"train/0": "zero", "test/1": "one"})
	s.publish(s.request("a0", "team", commit, attributePath, "/train"))
	if s.reads("a0", "0") != "zero" || s.reads("a0", "test/1") != "" {
		t.Error("it reads something else")
	}
	s.unpublish("a0")
}

// An agent that ends in the middle of a fetch leaves what it has to the next.
func TestTheNextAgentGoesOn(t *testing.T) {
	s := newStage(t)
	files := map[string]string{}
	for i := range byte(16) {
		files[fmt.Sprintf("%d", i)] = noise(i, 5<<20)
	}
	commit, key := s.put("team", files)
	// So many reads pass, and no more until the agent ends.
	var passed atomic.Int64
	begun := make(chan struct{})
	gate := func(ctx context.Context) error {
		switch n := passed.Add(1); {
		case n < 30:
			return nil
		case n == 30:
			close(begun)
		}
		<-ctx.Done()
		return ctx.Err()
	}
	s.stores["team"].gate.Store(&gate)
	asked := s.later(t.Context(), s.request("a0", "team", commit, attributeKey, key))
	<-begun
	s.end()
	if err := <-asked; err == nil {
		t.Fatal("it is mounted")
	}
	s.stores["team"].gate.Store(nil)
	before := s.stores["team"].read.Load()
	s.start()
	s.publish(s.request("a0", "team", commit, attributeKey, key))
	for name, content := range files {
		if s.reads("a0", name) != content {
			t.Errorf("%s is another", name)
		}
	}
	if read := s.stores["team"].read.Load() - before; read > 75<<20 {
		t.Errorf("the next agent reads %d bytes of %d", read, 80<<20)
	}
	s.unpublish("a0")
}

// What may pass is tried again, while the kubelet asks, and said meanwhile.
func TestABucketThatIsAway(t *testing.T) {
	s := newStage(t)
	commit, _ := s.put("team", map[string]string{"x": "y"})
	var tries atomic.Int64
	back := make(chan struct{})
	gate := func(context.Context) error {
		tries.Add(1)
		select {
		case <-back:
			return nil
		default:
			return errors.New("the bucket does not answer")
		}
	}
	s.stores["team"].gate.Store(&gate)
	asked := s.later(t.Context(), s.request("a0", "team", commit))
	s.hears("a0", v1alpha1.DataRetrying, "the bucket does not answer; trying again")
	close(back)
	must(t, <-asked)
	if s.reads("a0", "x") != "y" || tries.Load() < 2 {
		t.Errorf("it reads %q after %d tries", s.reads("a0", "x"), tries.Load())
	}
	s.hears("a0", v1alpha1.DataMounted, "")
	s.unpublish("a0")
}

// What is too large for the node is said to be at once; what only has no room beside
// what others read waits until that is gone, and then it takes its place.
func TestRoom(t *testing.T) {
	s := newStage(t)
	s.end()
	s.limit, s.pause = 3<<20, time.Hour
	s.start()
	huge, _ := s.put("team", map[string]string{"x": noise(1, 4<<20)})
	large, _ := s.put("team", map[string]string{"x": noise(2, 2<<20)})
	other, _ := s.put("other", map[string]string{"x": noise(3, 2<<20)})
	_, err := s.server.NodePublishVolume(t.Context(), s.request("a0", "team", huge))
	if err == nil || !strings.Contains(err.Error(), "do not fit into the machine's cache") {
		t.Errorf("it says %v", err)
	}
	s.hears("a0", v1alpha1.DataUnfit, "read a part of it (path), or give the cache more room (agent.dataCache")
	s.unpublish("a0")
	s.publish(s.request("b0", "team", large))
	asked := s.later(t.Context(), s.request("c0", "other", other))
	s.hears("c0", v1alpha1.DataRetrying, "2.1 MB of it are in use")
	if s.reads("b0", "x") != noise(2, 2<<20) {
		t.Error("what is read was removed")
	}
	s.unpublish("b0")
	must(t, <-asked)
	if s.reads("c0", "x") != noise(3, 2<<20) || len(s.kept("fetched")) != 1 {
		t.Errorf("there are %v", s.kept("fetched"))
	}
	s.unpublish("c0")
}

// Who asks and gives up finds it at the next time; what nobody asks for any more is
// not fetched any further.
func TestGivenUp(t *testing.T) {
	s := newStage(t)
	commit, _ := s.put("team", map[string]string{"x": noise(1, 1<<20)})
	begun, ended, open := make(chan struct{}, 100), make(chan struct{}, 100), make(chan struct{})
	gate := func(ctx context.Context) error {
		begun <- struct{}{}
		select {
		case <-open:
			return nil
		case <-ctx.Done():
			ended <- struct{}{}
			return ctx.Err()
		}
	}
	s.stores["team"].gate.Store(&gate)
	ctx, cancel := context.WithCancel(t.Context())
	asked := s.later(ctx, s.request("a0", "team", commit))
	<-begun
	s.hears("a0", v1alpha1.DataFetching, "fetching digits@main")
	cancel()
	if err := <-asked; status.Code(err) != codes.DeadlineExceeded || !strings.Contains(err.Error(), "still on its way") {
		t.Errorf("it says %v", err)
	}
	s.unpublish("a0")
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Fatal("it is fetched all the same")
	}
	// Another that wants it.
	ctx, cancel = context.WithCancel(t.Context())
	asked = s.later(ctx, s.request("b0", "team", commit))
	<-begun
	cancel()
	if err := <-asked; err == nil {
		t.Error("it is mounted before it is fetched")
	}
	close(open)
	s.publish(s.request("b0", "team", commit))
	if s.reads("b0", "x") != noise(1, 1<<20) {
		t.Error("it reads something else")
	}
	s.unpublish("b0")
}

// The next agent says again what is mounted, also of a pod that is not known at first;
// what was mounted before a boot is not, and pods that are gone are forgotten.
func TestTheNextAgentKnows(t *testing.T) {
	s := newStage(t)
	commit, key := s.put("team", map[string]string{"x": "y"})
	s.publish(s.request("a0", "team", commit, attributeKey, key))
	s.publish(s.request("gone", "team", commit, attributeKey, key))
	at := s.hears("a0", v1alpha1.DataMounted, "").MountedTime
	s.end()
	s.mu.Lock()
	s.said, s.deaf["a0"] = map[types.UID][]v1alpha1.PodData{}, true
	s.mu.Unlock()
	must(t, errors.Join(unix.Unmount(s.target("gone"), 0), os.RemoveAll(filepath.Join(s.dir, "pods", "gone"))))
	s.start()
	if again := s.hears("a0", v1alpha1.DataMounted, "").MountedTime; !again.Time.Equal(at.Time) {
		t.Errorf("mounted at %s, and then at %s", at, again)
	}
	s.server.tidy()
	if left := s.kept("volumes"); len(left) != 1 || filepath.Base(left[0]) != "csi-a0.json" {
		t.Errorf("there are records of %v", left)
	}
	s.end()
	must(t, unix.Unmount(s.target("a0"), 0))
	s.boot = "b002"
	s.start()
	if v, known := s.server.ledger.get("csi-a0"); !known || !v.Mounted.IsZero() {
		t.Errorf("after a boot: %+v", v)
	}
	s.publish(s.request("a0", "team", commit, attributeKey, key))
	if s.reads("a0", "x") != "y" {
		t.Error("after a boot it reads something else")
	}
	s.unpublish("a0")
}

func TestBadVolumes(t *testing.T) {
	s := newStage(t)
	commit, _ := s.put("team", map[string]string{"x": "y"})
	for name, c := range map[string]struct {
		change func(*csi.NodePublishVolumeRequest)
		says   string
	}{
		"no commit":           {func(r *csi.NodePublishVolumeRequest) { r.VolumeContext[attributeCommit] = "main" }, "the 64 digits of a commit"},
		"a path for a key":    {func(r *csi.NodePublishVolumeRequest) { r.VolumeContext[attributeKey] = "../../etc" }, "status.data of the job"},
		"an endless path":     {func(r *csi.NodePublishVolumeRequest) { r.VolumeContext[attributePath] = strings.Repeat("x", 5000) }, "at most 4096"},
		"no word on the pod":  {func(r *csi.NodePublishVolumeRequest) { delete(r.VolumeContext, inline.AttributeNamespace) }, "podInfoOnMount"},
		"a persistent volume": {func(r *csi.NodePublishVolumeRequest) { delete(r.VolumeContext, inline.AttributeEphemeral) }, "inline volumes"},
		"a path for an id":    {func(r *csi.NodePublishVolumeRequest) { r.VolumeId = "../x" }, "the volume's id"},
	} {
		t.Run(name, func(t *testing.T) {
			r := s.request("a0", "team", commit)
			c.change(r)
			_, err := s.server.NodePublishVolume(t.Context(), r)
			if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), c.says) {
				t.Errorf("it says %v, want %q", err, c.says)
			}
		})
	}
}

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"digits@main:/train":     "digits@main:/train",
		"a\x1b[31mb\nc":          "a[31mbc",
		strings.Repeat("é", 200): strings.Repeat("é", 150) + "...",
	} {
		if got := printable(text); got != want {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}
