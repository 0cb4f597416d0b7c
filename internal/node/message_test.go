package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestTerminationMessageOfAPod: in the plain tier a message below the pod's root is read, also in a
// volume. The node makes no folder for it through a link that an earlier container made.
func TestTerminationMessageOfAPod(t *testing.T) {
	w := newWorld(t, nil)
	host, outside := t.TempDir(), t.TempDir()
	says := func(at string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{
				{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: host}}},
				{Name: "own", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			}
			c := &p.Spec.Containers[0]
			c.VolumeMounts = []corev1.VolumeMount{{Name: "host", MountPath: "/muster/host"}, {Name: "own", MountPath: "/muster/own"}}
			c.TerminationMessagePath = at
		}
	}
	for name, path := range map[string]string{"root": "a/b/message", "host": "host/message", "own": "own/a/b/message"} {
		w.create(newPod(name, `printf said > "$MUSTER_ROOT/`+path+`"`).with(says("/muster/" + path)))
		pod := w.await(name, "end", ended)
		if last := pod.Status.ContainerStatuses[0].State.Terminated; last == nil || last.ExitCode != 0 || last.Message != "said" {
			t.Errorf("%s: ended with %+v", name, pod.Status.ContainerStatuses)
		}
	}
	w.create(newPod("linked", `true`).with(says("/muster/a/b/message")).with(func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{container("before", `ln -s `+outside+` "$MUSTER_ROOT/a"`)}
	}))
	w.await("linked", "say why it does not start", func(p *corev1.Pod) bool {
		if len(p.Status.ContainerStatuses) != 1 {
			return false
		}
		waits := p.Status.ContainerStatuses[0].State.Waiting
		return waits != nil && waits.Reason == reasonConfigError && strings.Contains(waits.Message, "a is a symbolic link")
	})
	if _, err := os.Lstat(filepath.Join(outside, "b")); !os.IsNotExist(err) {
		t.Errorf("a folder was made outside of the pod: %v", err)
	}
}
