package node

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/configuration"
)

// TestMappedImage: a container of an image that stands for the machine's programs runs the program
// of the mapping, by the rules for an image's configuration.
func TestMappedImage(t *testing.T) {
	folder := t.TempDir()
	w := newWorld(t, func(c *Config) {
		c.Images = configuration.Images{
			"example/tf:*": {
				Environment: "host", Entrypoint: []string{"/bin/sh", "-c", `test "$PWD $RATE $NAME $0 $*" = "$WANT"`}, Command: []string{"first", "second"},
				Env: map[string]string{"RATE": "0.1", "NAME": "image"}, WorkingDir: folder,
			},
			"bare": {Environment: "host"},
		}
	})
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"as-it-is":  {nil, folder + " 0.1 pod first second"},
		"with-args": {[]string{"other"}, folder + " 0.1 pod other "},
	} {
		w.create(newPod(name, "").with(func(p *corev1.Pod) {
			at := &p.Spec.Containers[0]
			at.Image, at.Command, at.Args = "example/tf:1", nil, c.args
			at.Env = []corev1.EnvVar{{Name: "NAME", Value: "pod"}, {Name: "WANT", Value: c.want}}
		}))
		if pod := w.await(name, "end", ended); pod.Status.Phase != corev1.PodSucceeded {
			t.Errorf("%s: %+v", name, pod.Status)
		}
	}
	w.create(newPod("commanded", "").with(func(p *corev1.Pod) {
		p.Spec.Containers[0].Image, p.Spec.Containers[0].Command = "example/tf:1", []string{"/bin/sh", "-c", `test "$PWD $#" = "` + folder + ` 0"`}
	}))
	if pod := w.await("commanded", "end", ended); pod.Status.Phase != corev1.PodSucceeded {
		t.Errorf("a command of its own: %+v", pod.Status)
	}
}
