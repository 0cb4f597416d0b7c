package inventory

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// MPSVariable names the environment variable with the folder of the sockets of NVIDIA's
// Multi-Process Service, and mpsFolder is that folder by default.
const (
	MPSVariable = "CUDA_MPS_PIPE_DIRECTORY"
	mpsFolder   = "/tmp/nvidia-mps"
)

// Alone reports whether the containers of a pod can open no GPUs but those that they
// are given, if each gets only the device files of these. It is false if a container
//
//   - is privileged, and so has all device files of the node;
//   - mounts something at /dev, or at a device file of NVIDIA's;
//   - may reach the Multi-Process Service, which numbers the GPUs of its daemon;
//   - has a mount path that is relative, and so leads to a place not known here.
func Alone(spec *corev1.PodSpec) bool {
	machine := map[string]bool{}
	for i := range spec.Volumes {
		machine[spec.Volumes[i].Name] = spec.Volumes[i].HostPath != nil
	}
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			if !alone(&list[i], machine) {
				return false
			}
		}
	}
	return true
}

// alone reports so of one container. The volumes of machine are folders of the node.
func alone(c *corev1.Container, machine map[string]bool) bool {
	if s := c.SecurityContext; s != nil && s.Privileged != nil && *s.Privileged {
		return false
	}
	if slices.ContainsFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == MPSVariable }) {
		return false
	}
	return !slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
		at := path.Clean(m.MountPath)
		devices := at == "/" || at == "/dev" || strings.HasPrefix(at, "/dev/nvidia")
		mps := machine[m.Name] && (at == path.Dir(mpsFolder) || at == mpsFolder || strings.HasPrefix(at, mpsFolder+"/"))
		return devices || mps || !path.IsAbs(at)
	})
}
