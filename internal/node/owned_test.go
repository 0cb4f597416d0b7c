package node

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/account"
	"github.com/muster-dev/muster/internal/node/rig"
	"github.com/muster-dev/muster/internal/people/owner"
)

// oneFile is code of one file.
type oneFile struct{}

func (oneFile) Checkout(_ context.Context, _, _, dir string) error {
	return errors.Join(os.MkdirAll(dir+"/pkg", 0o755), os.WriteFile(dir+"/pkg/train.py", []byte("code"), 0o644))
}

// several makes a node that ada and eve share. The number of their group is their own plus one.
func several(t *testing.T) func(*Config) {
	t.Helper()
	users := &residents{known: map[uint32]account.Account{}, gids: map[uint32][]uint32{}}
	for _, uid := range []uint32{ada, eve} {
		users.known[uid] = account.Account{UID: uid, GID: uid + 1, Login: "user" + strconv.FormatUint(uint64(uid), 10)}
		users.gids[uid] = []uint32{uid + 1}
	}
	share := shareMachine(t, users)
	return func(c *Config) {
		share(c)
		c.Code = oneFile{}
	}
}

// by makes the pod one of a user, with volumes at /muster/<name>.
func (b *podBuilder) by(uid int64, volumes ...corev1.Volume) *podBuilder {
	gid := uid + 1
	b.pod.Namespace = owner.Namespace(uint32(uid))
	b.pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: &uid, RunAsGroup: &gid}
	b.pod.Spec.Volumes = append(b.pod.Spec.Volumes, volumes...)
	for _, v := range volumes {
		c := &b.pod.Spec.Containers[0]
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: v.Name, MountPath: v1alpha1.PodRoot + "/" + v.Name})
	}
	return b
}

const ada, eve = 61234, 61333

func volumesOf(home, names string) []corev1.Volume {
	source := func(name string, s corev1.VolumeSource) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: s}
	}
	all := []corev1.Volume{
		source("empty", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}),
		source("memory", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}),
		source("words", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "words"}}}),
		source("host", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: home}}),
	}
	return slices.DeleteFunc(all, func(v corev1.Volume) bool { return !slices.Contains(strings.Fields(names), v.Name) })
}

func words(uid uint32) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: owner.Namespace(uid), Name: "words"}, Data: map[string]string{"word": "w"}}
}

// TestFilesOfOwners: a pod of a user has all of its folders as the user's own, in a home that refuses root,
// too; nothing of them is another user's to read, and all goes with the pod.
func TestFilesOfOwners(t *testing.T) {
	eachTier(t, several(t), ownFiles)
}

func ownFiles(t *testing.T, w *world) {
	home, volumes := rig.Squashed(t, ada, ada+1), "empty host words"
	if _, err := w.client.CoreV1().ConfigMaps(owner.Namespace(ada)).Create(t.Context(), words(ada), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.createJob(owner.Namespace(ada), "job", "job-1")
	if w.node.config.Tier == Isolated {
		volumes += " memory /tmp"
	}
	const script = `set -e; cd "$MUSTER_ROOT"
for at in $VOLUMES . code; do echo it > "$at/file"; test "$(stat -c %u "$at/file")" = 61234; done
test "$(cat words/word code/pkg/train.py)" = wcode; test "$(stat -c %a:%u code/)" = "700:61234"; printf done > last/message; exit 3`
	b := newPod("ada", script).of("job", "job-1").by(ada, volumesOf(home, volumes)...).with(func(p *corev1.Pod) {
		p.Spec.Containers[0].WorkingDir = ""
		p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "VOLUMES", Value: strings.Replace(volumes, "words", "", 1)}}
		p.Spec.Containers[0].TerminationMessagePath = v1alpha1.PodRoot + "/last/message"
	})
	pod := w.create(b)
	done := w.awaitIn(pod.Namespace, "ada", "end", ended)
	if len(done.Status.ContainerStatuses) != 1 {
		t.Fatalf("it was refused: %s %s", done.Status.Reason, done.Status.Message)
	}
	state := done.Status.ContainerStatuses[0].State.Terminated
	if state == nil || state.ExitCode != 3 || state.Message != "done" {
		t.Fatalf("it ended with %+v: %s %s", state, done.Status.Reason, done.Status.Message)
	}
	own := filepath.Join(w.data, "users", "61234")
	err := filepath.WalkDir(filepath.Join(w.data, "users"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == filepath.Join(w.data, "users") {
			return err
		}
		info, err := e.Info()
		if err == nil && (info.Sys().(*syscall.Stat_t).Uid != ada || e.IsDir() && info.Mode().Perm()&0o077 != 0) { //nolint:errcheck // Linux
			t.Errorf("%s has the mode %v and the user %d", path, info.Mode(), info.Sys().(*syscall.Stat_t).Uid)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	for _, folder := range []string{"pods", "jobs", "archive"} {
		if info, err := os.Stat(filepath.Join(w.data, folder)); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, error %v", folder, info.Mode(), err)
		}
	}
	if _, err := os.Stat(filepath.Join(own, "jobs", "job-1", "code", "sha256-00", "pkg", "train.py")); err != nil {
		t.Error(err)
	}
	if err := w.client.CoreV1().Pods(pod.Namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.awaitRemoved("ada")
	if err := w.node.removeJobFolder(t.Context(), "job-1"); err != nil {
		t.Error(err)
	}
	for _, path := range []string{
		filepath.Join(own, "pods", string(pod.UID)), filepath.Join(w.data, "memory", string(pod.UID)), filepath.Join(w.data, "pods", string(pod.UID)),
		filepath.Join(own, "jobs", "job-1"), filepath.Join(w.data, "jobs", "job-1"),
	} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
}

// TestHostPathOfOthers: the kernel refuses a path of another user, which root could open, and the pod waits
// with that reason.
func TestHostPathOfOthers(t *testing.T) {
	home := rig.Folder(t, ada, ada+1, 0o700)
	w := newWorld(t, several(t))
	w.create(newPod("eve", "exit 0").by(eve, volumesOf(home, "host")...))
	w.awaitIn(owner.Namespace(eve), "eve", "wait with a reason", func(p *corev1.Pod) bool {
		list := p.Status.ContainerStatuses
		return len(list) == 1 && list[0].State.Waiting != nil && strings.Contains(list[0].State.Waiting.Message, "as user 61333") &&
			strings.Contains(list[0].State.Waiting.Message, "permission denied")
	})
}

// TestNoOwner: a pod of a namespace that no user owns does not start with files of root's.
func TestNoOwner(t *testing.T) {
	w := newWorld(t, several(t))
	w.create(newPod("stray", "exit 0"))
	w.await("stray", "wait with a reason", func(p *corev1.Pod) bool {
		list := p.Status.ContainerStatuses
		return len(list) == 1 && list[0].State.Waiting != nil && strings.Contains(list[0].State.Waiting.Message, "belongs to no user")
	})
}
