package memberpod

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// environment puts the rendezvous variables before a container's own, so that
// the container's own variables can refer to them. MUSTER_ROOT is the first.
// A variable that the container sets itself keeps the container's value.
func environment(vars, own []corev1.EnvVar) []corev1.EnvVar {
	names := map[string]bool{}
	root := corev1.EnvVar{Name: v1alpha1.EnvRoot, Value: v1alpha1.PodRoot}
	for _, v := range own {
		names[v.Name] = true
		if v.Name == v1alpha1.EnvRoot {
			root = v
		}
	}
	out := make([]corev1.EnvVar, 0, 1+len(vars)+len(own))
	out = append(out, root)
	for _, v := range vars {
		if !names[v.Name] {
			out = append(out, v)
		}
	}
	for _, v := range own {
		if v.Name != v1alpha1.EnvRoot {
			out = append(out, v)
		}
	}
	return out
}

// envVisible is the variable that tells NVIDIA's container runtime which GPUs a container sees.
// The runtime believes images and users, too: an image for CUDA sets the variable to all.
const envVisible = "NVIDIA_VISIBLE_DEVICES"

// visible removes the variable from a container that gets GPUs, since its node sets it,
// and hides all GPUs from the other containers.
func visible(env []corev1.EnvVar, given bool) []corev1.EnvVar {
	env = slices.DeleteFunc(env, func(v corev1.EnvVar) bool { return v.Name == envVisible })
	if !given {
		env = append(env, corev1.EnvVar{Name: envVisible, Value: "void"})
	}
	return env
}
