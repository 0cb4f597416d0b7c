package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/node/rig"
	"github.com/muster-dev/muster/internal/node/userfiles"
)

const ada, eve = 61234, 61333

// owned is a Manager whose namespaces a and e belong to two users, and z to nobody.
func owned(t *testing.T, config Config) *Manager {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("it needs root: it becomes other users")
	}
	helpers := userfiles.New(userfiles.Options{Program: rig.Shim(t)})
	t.Cleanup(helpers.Close)
	homes := userfiles.NewHomes(filepath.Join(rig.Passable(t), "users"), helpers)
	config.PodsDir, config.JobsDir, config.MemoryDir = t.TempDir(), t.TempDir(), t.TempDir()
	config.Owner = func(_ context.Context, namespace string) (*userfiles.Home, error) {
		uid, known := map[string]uint32{"a": ada, "e": eve}[namespace]
		if !known {
			return nil, nil
		}
		home, err := homes.Of(userfiles.User{UID: uid, GID: uid + 1})
		return &home, err
	}
	return New(config)
}

func podIn(namespace string, source corev1.VolumeSource) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, UID: "pod-1"}, Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "v", VolumeSource: source}}}}
}

// at is an environments' answer for every key.
type at string

func (a at) Path(string, string) (string, error)          { return string(a), nil }
func (a at) Bench(string, string, string) (string, error) { return string(a), nil }

// TestPathsOfOwners: each kind of volume that leads to a path of the machine is opened as the owner of the
// pod's namespace: another user's is refused, and so is a namespace without an owner.
func TestPathsOfOwners(t *testing.T) {
	home := rig.Squashed(t, ada, ada+1)
	m := owned(t, Config{Environments: at(home)})
	create, file := corev1.HostPathDirectoryOrCreate, corev1.HostPathFileOrCreate
	host := func(path string, kind *corev1.HostPathType) corev1.VolumeSource {
		return corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path, Type: kind}}
	}
	environment := func(attributes map[string]string) corev1.VolumeSource {
		return corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: v1alpha1.EnvironmentDriver, VolumeAttributes: attributes}}
	}
	for name, source := range map[string]corev1.VolumeSource{
		"folder": host(home, nil), "new folder": host(home+"/new/er", &create), "new file": host(home+"/file", &file),
		"environment by path": environment(map[string]string{"path": home}), "by key": environment(map[string]string{"key": "path-x"}),
	} {
		if _, err := m.Prepare(t.Context(), podIn("e", source)); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s of another user: %v", name, err)
		}
		volumes, err := m.Prepare(t.Context(), podIn("a", source))
		if err != nil || volumes["v"].Owner == nil {
			t.Errorf("%s: %+v, error %v", name, volumes["v"], err)
		}
		if _, err := m.Prepare(t.Context(), podIn("z", source)); err == nil {
			t.Errorf("%s: a namespace without an owner has it", name)
		}
	}
}

// posts is a folder for every pod, and what was asked for.
type posts struct {
	dir   string
	heard []string
}

func (p *posts) Post(_ context.Context, pod *corev1.Pod, volume, work string, user userfiles.User) (string, error) {
	p.heard = append(p.heard, fmt.Sprint(pod.Namespace, " ", volume, " ", work, " ", user.UID, " ", user.GID))
	return p.dir, nil
}

func (p *posts) Forget(pod types.UID) error {
	p.heard = append(p.heard, "forget "+string(pod))
	return nil
}

// TestPostsOfOwners: a post is made for the owner of the pod's namespace, who mounts it, for reading.
func TestPostsOfOwners(t *testing.T) {
	source := corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: v1alpha1.StageDriver, VolumeAttributes: map[string]string{"work": "run.stage"}}}
	p := &posts{dir: t.TempDir()}
	m := owned(t, Config{Stages: p})
	volumes, err := m.Prepare(t.Context(), podIn("a", source))
	if v := volumes["v"]; err != nil || v.Path != p.dir || !v.ReadOnly || v.Own || v.Owner == nil || v.Owner.User().UID != ada {
		t.Errorf("%+v, error %v", v, err)
	}
	if _, err := m.Prepare(t.Context(), podIn("z", source)); err == nil {
		t.Error("a namespace without an owner has one")
	}
	if err := m.Forget("pod-1"); err != nil {
		t.Error(err)
	}
	if want := []string{fmt.Sprint("a v run.stage ", ada, " ", ada+1), "forget pod-1"}; !slices.Equal(p.heard, want) {
		t.Errorf("heard %q, want %q", p.heard, want)
	}
	if _, err := owned(t, Config{}).Prepare(t.Context(), podIn("a", source)); err == nil {
		t.Error("a node without stages has one")
	}
}

// TestViewsOfOwners: in the plain tier links are the owner's own, and none of the owner's leads root elsewhere.
func TestViewsOfOwners(t *testing.T) {
	m := owned(t, Config{})
	pod := podIn("a", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
	volumes, err := m.Prepare(t.Context(), pod)
	if err != nil {
		t.Fatal(err)
	}
	home, err := m.config.Owner(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	root := home.Place("pods", "pod-1", "root")
	if err := home.MakeAll(t.Context(), root, 0o700); err != nil {
		t.Fatal(err)
	}
	see := func(mount corev1.VolumeMount) error {
		mount.Name = "v"
		_, err := See(t.Context(), Request{
			Pod: pod, Container: &corev1.Container{VolumeMounts: []corev1.VolumeMount{mount}}, Volumes: volumes, Root: root.String(), Owner: home.Files,
		})
		return err
	}
	if err := see(corev1.VolumeMount{MountPath: v1alpha1.PodRoot + "/a/b", SubPath: "x/y"}); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(filepath.Join(root.String(), "a", "b")); err != nil || to != filepath.Join(volumes["v"].Path, "x", "y") {
		t.Errorf("the link leads to %s, error %v", to, err)
	}
	outside := filepath.Join(rig.Passable(t), "outside")
	if err := errors.Join(os.Mkdir(outside, 0o777), os.Chmod(outside, 0o777), home.Link(t.Context(), root.Join("away"), outside),
		home.Link(t.Context(), home.Place("pods", "pod-1", "volumes", "v", "away"), "/etc")); err != nil {
		t.Fatal(err)
	}
	for name, mount := range map[string]corev1.VolumeMount{
		"a link above the target": {MountPath: v1alpha1.PodRoot + "/away/x"}, "a link in the volume": {MountPath: v1alpha1.PodRoot + "/c", SubPath: "away"},
	} {
		if err := see(mount); err == nil {
			t.Errorf("%s was followed", name)
		}
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) != 0 {
		t.Errorf("outside are %v, error %v", left, err)
	}
}

// TestCodeOfOwners: a file of the code that only its owner may read is the user's, with its mode.
func TestCodeOfOwners(t *testing.T) {
	m := owned(t, Config{Code: &slowCode{}})
	volumes, err := m.Prepare(t.Context(), podIn("a", corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: v1alpha1.CodeDriver, VolumeAttributes: map[string]string{"snapshot": "sha256:ab", "job": "j"}}}))
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(volumes["v"].Path, "f"))
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Sys().(*syscall.Stat_t); got.Uid != ada || got.Gid != ada+1 || info.Mode() != 0o600 {
		t.Errorf("the file is of %d:%d with the mode %s", got.Uid, got.Gid, info.Mode())
	}
}
