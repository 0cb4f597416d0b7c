package inventory

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// TestAlone: a pod that could open GPUs of others is told of its own by UUIDs.
func TestAlone(t *testing.T) {
	yes, no := true, false
	mounting := func(path string, from corev1.VolumeSource) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) {
			s.Volumes = append(s.Volumes, corev1.Volume{Name: "v", VolumeSource: from})
			s.Containers[0].VolumeMounts = append(s.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "v", MountPath: path})
		}
	}
	own := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	node := corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/somewhere"}}
	for name, c := range map[string]struct {
		edit func(*corev1.PodSpec)
		want bool
	}{
		"plain": {func(*corev1.PodSpec) {}, true},
		"not privileged": {func(s *corev1.PodSpec) {
			s.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: &no}
		}, true},
		"privileged": {func(s *corev1.PodSpec) {
			s.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: &yes}
		}, false},
		"a privileged init container": {func(s *corev1.PodSpec) {
			s.InitContainers = []corev1.Container{{Name: "i", SecurityContext: &corev1.SecurityContext{Privileged: &yes}}}
		}, false},
		"shared memory":            {mounting("/dev/shm", own), true},
		"the node's /dev":          {mounting("/dev/", node), false},
		"a device":                 {mounting("/dev/nvidia3", node), false},
		"data of the node":         {mounting("/data", node), true},
		"a /tmp of its own":        {mounting("/tmp", own), true},
		"the node's /tmp":          {mounting("/tmp", node), false},
		"sockets of MPS":           {mounting("/tmp/nvidia-mps/pipe", node), false},
		"a place that is not said": {mounting("dev", own), false},
		"MPS elsewhere": {func(s *corev1.PodSpec) {
			s.Containers[0].Env = []corev1.EnvVar{{Name: "CUDA_MPS_PIPE_DIRECTORY", Value: "/mps"}}
		}, false},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}
		c.edit(&pod.Spec)
		if got := Alone(&pod.Spec); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
		if said := Claim(pod, "claim", 2, nil).Annotations[v1alpha1.AnnotationGPUsAlone] == "true"; said != c.want {
			t.Errorf("%s: its claim says %t, want %t", name, said, c.want)
		}
	}
}
