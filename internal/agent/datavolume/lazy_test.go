//go:build fuse

package datavolume

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/agent/inline"
	"github.com/muster-dev/muster/internal/agent/ondemand"
	"github.com/muster-dev/muster/internal/data/mount"
)

// desk has a pod have one.
func (s *stage) desk(pod, namespace string) (target string) {
	s.Helper()
	r := s.request(pod, namespace, "", attributeDesk, "true")
	r.VolumeId, r.TargetPath = "csi-desk-"+pod, filepath.Join(s.dir, "pods", pod, "desk")
	s.publish(r)
	return r.TargetPath
}

// serves starts the program of a pod, and waits until it serves.
func (s *stage) serves(desk string) (end func()) {
	s.Helper()
	ready := filepath.Join(s.TempDir(), "ready")
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), serving+"="+desk, serving+"_READY="+ready), os.Stderr
	must(s.T, cmd.Start())
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // it is killed
		close(ended)
	}()
	end = func() {
		_ = cmd.Process.Kill()
		<-ended
	}
	s.Cleanup(end)
	for limit := time.After(30 * time.Second); ; {
		if ondemand.Main(s.Context(), []string{"--ask", "--ready", ready}, os.Stderr) == 0 {
			return end
		}
		select {
		case <-ended:
			s.Fatal("who serves the mounts has ended")
		case <-limit:
			s.Fatal("nobody serves the mounts")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TestOnDemand: a pod reads what nobody fetched, also while the agent is another one, and
// what is there after its program was killed is what the next one serves.
func TestOnDemand(t *testing.T) {
	s := newStage(t)
	files := map[string]string{"train/0": noise(1, 3<<20), "labels.csv": "a,b"}
	for i := range 40 {
		files[fmt.Sprint("small/", i)] = fmt.Sprint("file ", i)
	}
	commit, _ := s.put("team", files)
	s.publish(s.request("a0", "team", commit, attributeLazy, "true", attributePath, "/"))
	desk := s.desk("a0", "team")
	s.hears("a0", v1alpha1.DataMounted, "")
	end := s.serves(desk)
	if s.reads("a0", "labels.csv") != "a,b" || s.reads("a0", "small/7") != "file 7" {
		t.Error("the pod reads something else")
	}
	if err := os.WriteFile(filepath.Join(s.target("a0"), "new"), nil, 0o600); !errors.Is(err, unix.EROFS) {
		t.Errorf("the pod writes: %v", err)
	}
	if fetched := s.kept("fetched"); len(fetched) > 1 { // a folder of the cache's own
		t.Errorf("fetched is %v", fetched)
	}
	// 1. Another agent: what is open is served on, and so is what is asked for next.
	s.end()
	s.start()
	if s.reads("a0", "train/0") != files["train/0"] {
		t.Error("with another agent the pod reads something else")
	}
	s.publish(s.request("a0", "team", commit, attributeLazy, "true", attributePath, "/")) // as a kubelet does
	if s.reads("a0", "small/8") != "file 8" {
		t.Error("once it is asked for again the pod reads something else")
	}
	// 2. The program is killed: whoever reads is told, and the next one serves again.
	end()
	if _, err := os.ReadFile(filepath.Join(s.target("a0"), "small/9")); !errors.Is(err, unix.ENOTCONN) {
		t.Errorf("reading what nobody serves: %v", err)
	}
	if !inline.Shown(s.target("a0")) {
		t.Error("a mount that nobody serves is none")
	}
	end = s.serves(desk)
	if s.reads("a0", "small/9") != "file 9" {
		t.Error("from the next program the pod reads something else")
	}
	// 3. The pod goes, and with it everything.
	end()
	s.unpublish("a0")
	_, err := s.server.NodeUnpublishVolume(t.Context(), &csi.NodeUnpublishVolumeRequest{VolumeId: "csi-desk-a0", TargetPath: desk})
	must(t, err)
	if points, err := mount.Points(s.dir); err != nil || len(points) > 0 {
		t.Errorf("mounted is still %v (%v)", points, err)
	}
	if left := append(s.kept("volumes"), s.kept("desks")...); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

// TestOnDemandOfOthers: by its desk a pod has what is its namespace's, and no more.
func TestOnDemandOfOthers(t *testing.T) {
	s := newStage(t)
	commit, _ := s.put("team", map[string]string{"a": "b"})
	s.publish(s.request("b0", "other", commit, attributeLazy, "true"))
	desk := s.desk("b0", "other")
	said := &strings.Builder{}
	if code := ondemand.Main(t.Context(), []string{"--desk", desk, "--ready", filepath.Join(t.TempDir(), "ready")}, said); code != 1 || !strings.Contains(said.String(), commit) {
		t.Errorf("exit code %d: %s", code, said)
	}
	s.unpublish("b0")
}
