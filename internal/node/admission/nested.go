package admission

import (
	"path"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// Target is where a container that has no mounts of its own asks for a volume: a clean absolute path,
// below v1alpha1.PodRoot if the node may make a link there.
func Target(ctr *corev1.Container, m *corev1.VolumeMount) string {
	clean := path.Clean(m.MountPath)
	if path.IsAbs(clean) {
		return clean
	}
	dir := ctr.WorkingDir
	if !path.IsAbs(dir) {
		dir = path.Join(v1alpha1.PodRoot, dir)
	}
	return path.Join(dir, clean)
}

// Outer is the innermost of the container's other mounts that a target lies in, and nil if there is
// none.
func Outer(ctr *corev1.Container, target string) *corev1.VolumeMount {
	var found *corev1.VolumeMount
	for i := range ctr.VolumeMounts {
		m := &ctr.VolumeMounts[i]
		at := Target(ctr, m)
		if at != target && Below(target, at) && (found == nil || Below(at, Target(ctr, found))) {
			found = m
		}
	}
	return found
}

// place checks that the link for a mount of the plain tier lies in a folder that is the pod's own.
// The node may make it as root, so anywhere else it would change files of others.
func (c *check) place(at string, ctr *corev1.Container, m *corev1.VolumeMount) {
	if AutomaticToken(c.pod, m) {
		return
	}
	target := Target(ctr, m)
	if !Below(target, v1alpha1.PodRoot) {
		c.refuse(at+"mountPath", "%q is %s with the working directory %q, which is a folder of the whole machine in the plain tier. "+
			"Mount it below %s (the container finds that folder in $%s), or set workingDir to a folder below %s",
			m.MountPath, target, ctr.WorkingDir, v1alpha1.PodRoot, v1alpha1.EnvRoot, v1alpha1.PodRoot)
		return
	}
	if outer := Outer(ctr, target); outer != nil && !ownFolder(c.pod, outer.Name) {
		c.refuse(at+"mountPath", "%q lies in the volume %q, which is not this pod's alone: in the plain tier a volume may be mounted "+
			"inside code or an emptyDir only. Mount it beside that volume", m.MountPath, outer.Name)
	}
}

// ownFolder is true for a volume in which the node may make links: a folder of the pod, or a
// checkout of code, which only members of the job have.
func ownFolder(pod *corev1.Pod, name string) bool {
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.Name == name {
			return v.EmptyDir != nil || v.CSI != nil && v.CSI.Driver == v1alpha1.CodeDriver
		}
	}
	return false
}
