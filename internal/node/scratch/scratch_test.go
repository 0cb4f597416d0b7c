package scratch

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/internal/node/expansion"
)

func pod(uid string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}, Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "before"}}, Containers: []corev1.Container{{Name: "main"}, {Name: "beside"}},
	}}
}

// TestPlain: without mounts a container gets its folder in TMPDIR, unless it sets that itself.
func TestPlain(t *testing.T) {
	p, dir := pod("a"), filepath.Join("/", "run", "m") // it has to be short
	if err := os.MkdirAll(dir, 0o700); err != nil {
		dir = t.TempDir()
	} else {
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
	}
	s := New(Options{DataDir: dir})
	r := Request{Pod: p, Container: &p.Spec.Containers[1]}
	f, err := s.Make(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	place := filepath.Join(s.Folder("a"), "2")
	if diff := cmp.Diff(Folders{TMPDIR: place, Own: place}, f); diff != "" {
		t.Error(diff)
	}
	v := &expansion.Variables{}
	v.Set("TMPDIR", "/mine")
	f.Tell(v)
	if diff := cmp.Diff([]string{"TMPDIR=/mine", "MUSTER_TEMPORARY_FOLDERS=" + place}, v.List()); diff != "" {
		t.Error(diff)
	}
	if err := os.WriteFile(filepath.Join(place, "left"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Make(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(place); err != nil || len(left) > 0 {
		t.Errorf("the next start has %v (%v)", left, err)
	}
	if err := s.Remove(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.Folder("a")); !os.IsNotExist(err) {
		t.Errorf("the folder stays: %v", err)
	}
	r.OtherUser = true // Muster's folder is not for others
	if f, err := s.Make(t.Context(), r); err != nil || f.TMPDIR+f.Own != "" {
		t.Errorf("another user gets %+v, %v", f, err)
	}
	far := New(Options{DataDir: filepath.Join(dir, strings.Repeat("x", 60))})
	r.OtherUser = false
	if f, err := far.Make(t.Context(), r); err != nil || f.TMPDIR != "" {
		t.Errorf("a path too long for sockets: %+v, %v", f, err)
	}
}

// TestRemoveTwice: the end of a pod and its deletion may remove its folders at the same time.
func TestRemoveTwice(t *testing.T) {
	p, s := pod("a"), New(Options{DataDir: t.TempDir()})
	place := filepath.Join(s.Folder("a"), "1")
	for range 20 {
		if err := os.MkdirAll(filepath.Join(place, strings.Repeat("a/", 20)), 0o700); err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				if err := s.Remove(t.Context(), p.UID); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
	}
}

// TestImage: an image's own folders are the container's, but for volumes.
func TestImage(t *testing.T) {
	p := pod("a")
	p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{MountPath: "/var"}, {MountPath: "/tmp/in"}}
	f, err := New(Options{DataDir: t.TempDir()}).Make(t.Context(), Request{Pod: p, Container: &p.Spec.Containers[0], Isolated: true, Image: true})
	if err != nil || f.Own != "/tmp:/dev/shm" || len(f.Mounts) > 0 {
		t.Errorf("got %+v, %v", f, err)
	}
}

// TestVisible: files of a hidden folder that containers need stay visible, and no others.
func TestVisible(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(top, name) }
	for _, dir := range []string{"data/tmp", "venv/bin", "base/bin", "other/bin", "target", "secret"} {
		if err := os.MkdirAll(in(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(in("venv/pyvenv.cfg"), []byte("version = 3\nhome = "+in("base/bin")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(in("target"), in("link")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", in("other/bin")+":/usr/bin:"+in("none/bin"))
	s := New(Options{DataDir: in("data")})
	got := s.visible([]string{top}, in("link"))
	if diff := cmp.Diff([]string{in("data"), in("link"), in("other"), in("target")}, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{in("base"), in("data"), in("other"), in("venv")}, s.visible([]string{top}, in("venv"))); diff != "" {
		t.Error(diff)
	}
	if got := s.visible([]string{"/nowhere"}, ""); len(got) > 0 {
		t.Errorf("outside: %q", got)
	}
}
