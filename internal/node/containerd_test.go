//go:build cluster

package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/internal/node/image"
	"github.com/muster-dev/muster/internal/node/process"
	"github.com/muster-dev/muster/internal/node/rig"
	"github.com/muster-dev/muster/internal/node/subordinate"
	"github.com/muster-dev/muster/test/cluster"
)

const boxImage = "muster.test/box:1"

// withImages starts a containerd that has boxImage and runs a test with a node
// of each tier that uses it.
func withImages(t *testing.T, test func(t *testing.T, w *world, r *cluster.Runtime)) {
	t.Helper()
	withImagesOf(t, nil, test)
}

// withImagesOf is withImages with the numbers of user namespaces.
func withImagesOf(t *testing.T, users func(string) (*process.Users, error), test func(t *testing.T, w *world, r *cluster.Runtime)) {
	if !rig.Alone() {
		t.Fatal("containerd wants root: run `make test-images` as root")
	}
	r, err := cluster.StartRuntime(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Stop(); err != nil {
			t.Error(err)
		}
	})
	box, err := cluster.Busybox(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	box.Name, box.User, box.Dir = boxImage, "nobody", "/srv"
	box.Env, box.Entrypoint, box.Command = []string{"PATH=/bin", "FROM=image"}, []string{"sh", "-c"}, []string{"echo the command of the image"}
	box.Files = append(box.Files, cluster.File{To: "/srv/only-here", Content: "only in the image\n"})
	if err := r.Import(t.Context(), image.Namespace, box); err != nil {
		t.Fatal(err)
	}
	eachTier(t, func(c *Config) {
		var err error
		c.ImageUsers = users
		if c.ImageStore, err = image.Open(image.Options{Socket: r.Socket, Owner: c.DataDir}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.ImageStore.Close() })
	}, func(t *testing.T, w *world) { test(t, w, r) })
}

// boxed is a pod in boxImage; without a script it is the image's own command.
func boxed(name, script string) *podBuilder {
	return newPod(name, "").with(func(p *corev1.Pod) {
		c := &p.Spec.Containers[0]
		c.Image, c.Command = boxImage, nil
		if script != "" {
			c.Args = []string{script}
		}
		c.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	})
}

func TestPodInAnImage(t *testing.T) {
	withImages(t, func(t *testing.T, w *world, r *cluster.Runtime) { podsInAnImage(t, w, r, "/muster/x /dev/shm/x") })
}

// TestImagesOfUsers: images see the same in a user namespace. What their root writes to a hostPath is
// the user's, and it reads nothing of others there. Where there is no namespace, the pod is refused.
func TestImagesOfUsers(t *testing.T) {
	const owner = 20001
	table, err := subordinate.Open(subordinate.Options{Path: filepath.Join(t.TempDir(), "subordinate.json"), Layers: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	var refuse atomic.Bool
	users := func(string) (*process.Users, error) {
		if refuse.Load() {
			return nil, errors.New("images are refused here")
		}
		return table.Users(owner, owner)
	}
	withImagesOf(t, users, func(t *testing.T, w *world, r *cluster.Runtime) {
		podsInAnImage(t, w, r, "/dev/shm/x") // the pod's folder is root's
		dir := t.TempDir()
		if err := errors.Join(os.Chown(dir, owner, owner), os.WriteFile(filepath.Join(dir, "secret"), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		zero := int64(0)
		w.create(boxed("writes", `test "$(id -u)" = 0 && touch /v/made && ! cat /v/secret 2>/dev/null`).with(func(p *corev1.Pod) {
			p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: &zero}
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir}}}}
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
		}))
		if pod := w.await("writes", "end", ended); pod.Status.Phase != corev1.PodSucceeded {
			t.Errorf("%+v", pod.Status)
		}
		info, err := os.Stat(filepath.Join(dir, "made"))
		if err != nil {
			t.Fatal(err)
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); !ok || stat.Uid != owner || stat.Gid != owner {
			t.Errorf("the file is of %d:%d", stat.Uid, stat.Gid)
		}
		refuse.Store(true)
		t.Cleanup(func() { refuse.Store(false) })
		w.create(boxed("refused", "true"))
		if pod := w.await("refused", "end", ended); pod.Status.Phase != corev1.PodFailed || !strings.Contains(fmt.Sprintf("%+v", pod.Status), "images are refused here") {
			t.Errorf("%+v", pod.Status)
		}
	})
}

// podsInAnImage runs pods in an image. One with a read-only root can write to some paths.
func podsInAnImage(t *testing.T, w *world, r *cluster.Runtime, writable string) {
	t.Helper()
	zero := int64(0)
	w.create(boxed("sees", `
		set -e
		test "$FROM" = image; test "$PWD" = /srv; test "$(id -u)" = 65534; test "$HOME" = /
		test "$(cat only-here)" = "only in the image"
		test ! -e /usr/share; test ! -e /var/lib/dpkg
		test -s /etc/hosts; test -d /proc/self; test -c /dev/null; test -d /sys/class
		test "$(cat /config/key)" = value
		test "$MUSTER_ROOT" = /muster; test -d /muster
		echo last words > /dev/termination-log
		exit 7`).with(func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "config"}}}}}
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/config"}}
	}))
	w.create(boxed("owns", `
		set -e
		test "$(id -u)" = 0; test "$HOME" = /root; echo mine > /srv/written; grep -q ' /sys sysfs ro' /proc/mounts`).with(func(p *corev1.Pod) { p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: &zero} }))
	w.create(boxed("plain", ""))
	w.create(boxed("sealed", "touch "+writable+" && test -d /etc && ! touch /srv/x /x 2>/dev/null").with(func(p *corev1.Pod) {
		yes := true
		p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{RunAsUser: &zero, ReadOnlyRootFilesystem: &yes}
	}))
	if _, err := w.client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "config", Namespace: "default"}, Data: map[string]string{"key": "value"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		code int32
		says string
	}{"sees": {7, "last words\n"}, "owns": {0, ""}, "plain": {0, ""}, "sealed": {0, ""}} {
		pod := w.await(name, "end", ended)
		if len(pod.Status.ContainerStatuses) == 0 {
			t.Fatalf("pod %s: %s", name, pod.Status.Message)
		}
		c := pod.Status.ContainerStatuses[0]
		if c.State.Terminated.ExitCode != want.code || c.State.Terminated.Message != want.says {
			t.Errorf("pod %s ended with %+v, want code %d, %q", name, c.State.Terminated, want.code, want.says)
		}
		if !strings.HasPrefix(c.ImageID, "muster.test/box:1@sha256:") {
			t.Errorf("pod %s says of its image %q", name, c.ImageID)
		}
	}
	for _, name := range []string{"sees", "owns", "plain", "sealed"} {
		w.terminate(name, 0)
		w.awaitGone(name)
		w.awaitRemoved(name)
	}
	checkHeld(t, w, r)
}

// checkHeld compares what containerd keeps for the world's pods.
func checkHeld(t *testing.T, w *world, r *cluster.Runtime, want ...string) {
	t.Helper()
	got, err := w.node.config.ImageStore.Holders(t.Context())
	if err != nil || len(got) != len(want) {
		t.Errorf("held by %v, %v, want %v", got, err, want)
	}
	list, err := r.Ctr(t.Context(), "--namespace", image.Namespace, "snapshots", "list")
	if err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(list) {
		if uid, ours := strings.CutPrefix(line, "muster/"+w.id+"-"); ours && len(want) == 0 {
			t.Errorf("a root is left: %s", uid)
		}
	}
}

// endsIn shows a pipe to a pod as /ends/pipe.
func endsIn(pipe *rig.Pipe) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: filepath.Dir(pipe.Path())}}}}
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/ends"}}
	}
}

// TestImageOutlivesMuster: what runs is adopted, and what nobody knows any more
// is given back.
func TestImageOutlivesMuster(t *testing.T) {
	withImages(t, func(t *testing.T, w *world, r *cluster.Runtime) {
		ends := rig.NewPipe(t)
		w.create(boxed("stays", "read -r go < /ends/pipe; cat only-here; exit 3").with(endsIn(ends)))
		w.await("stays", "run", inPhase(corev1.PodRunning))
		w.stop()
		store := w.node.config.ImageStore
		orphan := "orphan-" + w.id
		got, err := store.Fetch(t.Context(), image.Request{Holder: orphan, Name: boxImage})
		if err == nil {
			_, err = store.Root(t.Context(), orphan, orphan+"/main/0", got)
		}
		if err != nil {
			t.Fatal(err)
		}
		w.start()
		ends.Open()
		pod := w.await("stays", "end", ended)
		if c := pod.Status.ContainerStatuses[0]; c.State.Terminated.ExitCode != 3 || c.RestartCount != 0 {
			t.Errorf("ended with %+v", c)
		}
		w.terminate("stays", 0)
		w.awaitGone("stays")
		w.awaitRemoved("stays")
		deadline := time.Now().Add(20 * time.Second) // containerd tells nobody when a lease goes
		for holders := []string{orphan}; len(holders) > 0; time.Sleep(20 * time.Millisecond) {
			if holders, err = store.Holders(t.Context()); err != nil || time.Now().After(deadline) {
				t.Fatalf("still held by %v (%v)", holders, err)
			}
		}
		checkHeld(t, w, r)
	})
}

func TestImageThatCannotBe(t *testing.T) {
	withImages(t, func(t *testing.T, w *world, _ *cluster.Runtime) {
		change := func(name, named string, policy corev1.PullPolicy) *podBuilder {
			return boxed(name, "true").with(func(p *corev1.Pod) {
				p.Spec.Containers[0].Image, p.Spec.Containers[0].ImagePullPolicy = named, policy
			})
		}
		w.create(change("never", "muster.test/none:1", corev1.PullNever))
		w.create(change("unreachable", "127.0.0.1:9/none:1", corev1.PullIfNotPresent))
		w.create(change("misspelt", "No/Image", ""))
		for name, want := range map[string][2]string{
			"never":       {"ErrImageNeverPull", "muster.test/none:1"},
			"unreachable": {"ErrImagePull", "connection refused"},
			"misspelt":    {"InvalidImageName", `"No/Image"`},
		} {
			pod := w.await(name, "wait", func(p *corev1.Pod) bool {
				return len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].State.Waiting != nil &&
					p.Status.ContainerStatuses[0].State.Waiting.Reason == want[0]
			})
			if said := pod.Status.ContainerStatuses[0].State.Waiting.Message; !strings.Contains(said, want[1]) {
				t.Errorf("pod %s waits with %q, want %q", name, said, want[1])
			}
			w.terminate(name, 0)
			w.awaitGone(name)
		}
	})
}

// TestImageEnds: a restart begins afresh, and what does not end is killed with
// its root.
func TestImageEnds(t *testing.T) {
	withImages(t, func(t *testing.T, w *world, r *cluster.Runtime) {
		zero := int64(0)
		asRoot := func(p *corev1.Pod) { p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: &zero} }
		w.create(boxed("again", "test -e /written && exit 0; echo x > /written; exit 1").with(asRoot).restart(corev1.RestartPolicyOnFailure))
		pod := w.await("again", "start a third time", func(p *corev1.Pod) bool {
			return len(p.Status.ContainerStatuses) > 0 && (p.Status.ContainerStatuses[0].RestartCount > 0 && p.Status.ContainerStatuses[0].State.Waiting != nil || ended(p))
		})
		if ended(pod) {
			t.Error("a container that was started again sees what the one before it wrote")
		}
		up := rig.NewPipe(t)
		w.create(boxed("stays", "trap '' TERM; echo up > /ends/pipe; while true; do sleep 0.1; done").with(asRoot).with(endsIn(up)))
		up.Hear()
		begin := time.Now()
		for _, name := range []string{"again", "stays"} {
			w.terminate(name, 1)
		}
		for _, name := range []string{"again", "stays"} {
			w.awaitGone(name)
			w.awaitRemoved(name)
		}
		if took := time.Since(begin); took < time.Second || took > 15*time.Second {
			t.Errorf("it took %s to end what has 1 s", took)
		}
		checkHeld(t, w, r)
	})
}
