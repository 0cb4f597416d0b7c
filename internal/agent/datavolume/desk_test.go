//go:build fuse

package datavolume

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
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

// connects connects to a socket of a desk, by a name that is short.
func (s *stage) connects(network, desk, socket string) net.Conn {
	s.Helper()
	folder, err := os.Open(desk)
	must(s.T, err)
	defer func() { _ = folder.Close() }()
	conn, err := (&net.Dialer{}).DialContext(s.Context(), network, fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), socket))
	must(s.T, err)
	s.Cleanup(func() { _ = conn.Close() })
	return conn
}

// TestWhoDoesNotTakeMounts: a pod that asks for more than it takes keeps no agent from
// ending.
func TestWhoDoesNotTakeMounts(t *testing.T) {
	s := newStage(t)
	commit, _ := s.put("team", map[string]string{"a": "b"})
	for i := range 100 { // more than fits into a socket
		r := s.request("c0", "team", commit, attributeLazy, "true", attributePath, strings.Repeat("a", longestPath))
		r.VolumeId, r.TargetPath = fmt.Sprint("csi-c0-", i), filepath.Join(s.dir, "pods", "c0", fmt.Sprint(i))
		s.publish(r)
	}
	desk := s.desk("c0", "team")
	conn := s.connects("unixpacket", desk, ondemand.AttachSocket)
	// It has begun to hand over, and goes on as far as it can.
	first := make([]byte, 1)
	_, err := conn.Read(first)
	must(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.end()
	}()
	select {
	case <-ended:
	case <-time.After(handWithin / 2):
		t.Error("the agent waits for who does not take what it asked for")
		_ = conn.Close()
		<-ended
	}
}

// TestAPlaceThatIsMounted: a kubelet that asks again is answered also while nobody serves
// the mount.
func TestAPlaceThatIsMounted(t *testing.T) {
	s := newStage(t)
	commit, _ := s.put("team", map[string]string{"a": "b"})
	s.publish(s.request("d0", "team", commit, attributeLazy, "true"))
	device, err := mount.Attach(s.target("d0"))
	must(t, err)
	v, _ := s.server.ledger.get("csi-d0")
	answered := make(chan error, 1)
	go func() { answered <- s.server.showLater("csi-d0", v) }()
	select {
	case err := <-answered:
		must(t, err)
		must(t, device.Close())
	case <-time.After(10 * time.Second):
		t.Error("it waits for who serves the mount")
		must(t, device.Close()) // whoever waits is told
		t.Log(<-answered)
	}
	must(t, mount.Abandon(s.target("d0")))
}

// offers waits until the driver is offered to kubelets, which it is once it answers at the
// desks that are there.
func (s *stage) offers() {
	s.Helper()
	socket := filepath.Join(inline.Folder(s.dir, v1alpha1.DataDriver), "csi.sock")
	for limit := time.After(20 * time.Second); ; {
		if _, err := os.Stat(socket); err == nil {
			return
		}
		select {
		case <-limit:
			s.Fatal("the driver is not offered")
		case <-time.After(time.Millisecond):
		}
	}
}

// TestDesksOfNobody: what a killed agent left of a volume that it had forgotten goes, and
// a desk that could not be answered at is answered at later.
func TestDesksOfNobody(t *testing.T) {
	s := newStage(t)
	desk := s.desk("e0", "team")
	s.offers()
	s.end()
	left := filepath.Join(filepath.Dir(s.kept("desks")[0]), "csi-gone")
	must(t, os.Mkdir(left, 0o755))
	program := filepath.Join(s.kept("desks")[0], ondemand.AttachSocket)
	must(t, os.Remove(program))
	must(t, os.MkdirAll(filepath.Join(program, "in the way"), 0o755))
	s.start()
	s.offers()
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("what was left is still there: %v", err)
	}
	must(t, os.RemoveAll(program))
	s.server.tend(t.Context())
	must(t, s.connects("unixpacket", desk, ondemand.AttachSocket).Close())
}

// TestWhatAPodSays: of what a pod says the agent hands on which object it wants, and which
// part; and all its pods together ask for no more at once than a node may.
func TestWhatAPodSays(t *testing.T) {
	heard, answer := make(chan *http.Request, 3*askersAtOnce), make(chan struct{})
	s := newStage(t)
	s.server.options.Pass = func(w http.ResponseWriter, r *http.Request, _, path string) {
		r.URL.Path = path
		heard <- r
		<-answer
		w.WriteHeader(http.StatusNoContent)
	}
	const key = "packs/ab/abababababababababababababababab"
	for pod := range 3 {
		desk := s.desk(fmt.Sprint("f", pod), "team")
		for range askersAtOnce {
			conn := s.connects("unix", desk, ondemand.ObjectsSocket)
			_, err := io.WriteString(conn, "GET "+ondemand.ObjectsPath+key+"?prefix=leases/ HTTP/1.1\r\nHost: agent\r\nRange: bytes=0-3\r\nAuthorization: mine\r\nConnection: upgrade\r\nUpgrade: me\r\nContent-Length: 1\r\n\r\nx")
			must(t, err)
		}
	}
	for range askedAtOnce {
		r := <-heard
		if len(r.Header) != 1 || r.Header.Get("Range") != "bytes=0-3" || r.URL.RequestURI() != "/data/"+key || r.Body != http.NoBody {
			t.Fatalf("handed on is %v %v", r.URL, r.Header)
		}
	}
	select {
	case <-heard:
		t.Error("more is asked for at once than a node may")
	case <-time.After(100 * time.Millisecond):
	}
	close(answer)
	for range 3*askersAtOnce - askedAtOnce {
		<-heard
	}
}

// TestAPodThatAnswersNobody: whoever on the node looks into what a pod mounts and does not
// serve waits no longer than until the volume goes, which it does whoever has the device.
func TestAPodThatAnswersNobody(t *testing.T) {
	s := newStage(t)
	commit, _ := s.put("team", map[string]string{"a": "b"})
	s.publish(s.request("h0", "team", commit, attributeLazy, "true"))
	conn := s.connects("unixpacket", s.desk("h0", "team"), ondemand.AttachSocket)
	_, device, err := ondemand.Receive(conn.(*net.UnixConn))
	must(t, err)
	defer func() { must(t, device.Close()) }()
	asked := make([]byte, 1<<16)
	_, err = device.Read(asked) // the kernel's first question, which nobody answers
	must(t, err)
	looking, looked := make(chan struct{}), make(chan error, 1)
	folder, err := unix.Open(s.target("h0"), unix.O_PATH, 0)
	must(t, err)
	go func() {
		close(looking)
		var found unix.Stat_t
		looked <- unix.Fstatat(folder, "a", &found, 0)
		_ = unix.Close(folder)
	}()
	<-looking
	gone := make(chan error, 1)
	go func() {
		_, err := s.server.NodeUnpublishVolume(s.Context(), &csi.NodeUnpublishVolumeRequest{VolumeId: "csi-h0", TargetPath: s.target("h0")})
		gone <- err
	}()
	limit := time.After(10 * time.Second)
	for range 2 {
		select {
		case err := <-gone:
			must(t, err)
		case err := <-looked:
			if err == nil {
				t.Error("somebody answers")
			}
		case <-limit:
			t.Error("the volume does not go, or who looks into it still waits")
			must(t, mount.Abandon(s.target("h0")))
			limit = nil
		}
	}
}
