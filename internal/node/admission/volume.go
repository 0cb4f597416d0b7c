package admission

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/configuration"
	"github.com/muster-dev/muster/api/v1alpha1"
)

// volumes checks the kinds of volumes.
func (c *check) volumes() {
	for i := range c.pod.Spec.Volumes {
		c.volume(fmt.Sprintf("spec.volumes[%d].", i), &c.pod.Spec.Volumes[i])
	}
}

func (c *check) volume(at string, v *corev1.Volume) {
	if e := v.EmptyDir; e != nil {
		memory := e.Medium == corev1.StorageMediumMemory
		c.refuseIf(!memory && e.Medium != corev1.StorageMediumDefault, at+"emptyDir.medium", "%q is not implemented by this node; use Memory or none", e.Medium)
		c.refuseIf(memory && !c.facts.Isolated, at+"emptyDir.medium", "Memory "+needsIsolation+"; programs find the machine's /dev/shm without it")
		c.refuseIf(!memory && e.SizeLimit != nil && !e.SizeLimit.IsZero(), at+"emptyDir.sizeLimit", "this node cannot enforce a size limit on a folder of its disk; remove it")
	}
	if v.CSI != nil {
		c.csi(at+"csi.", v.CSI)
	}
}

func (c *check) csi(at string, csi *corev1.CSIVolumeSource) {
	attributes := csi.VolumeAttributes
	switch csi.Driver {
	case v1alpha1.CodeDriver:
		c.refuseIf(attributes["snapshot"] == "", at+"volumeAttributes", "needs snapshot, the digest of a code snapshot")
	case v1alpha1.EnvironmentDriver:
		key, folder := attributes["key"], attributes["path"]
		c.refuseIf((key == "") == (folder == ""), at+"volumeAttributes", "needs one of key and path")
		c.refuseIf(folder != "" && !path.IsAbs(folder), at+"volumeAttributes", "path %q must be absolute", folder)
		build := attributes["build"] == "true"
		c.refuseIf(build && (len(key) != 64 || c.pod.Labels[v1alpha1.LabelBuild] != key[:63]), at+"volumeAttributes",
			"this pod is none that Muster made to build environment %q: leave build out, and name the key of one that is built", key)
	case v1alpha1.DataDriver:
		c.refuseIf(!slices.Contains([]string{"", "true", "false"}, attributes["lazy"]), at+"volumeAttributes", "lazy %q is neither true nor false", attributes["lazy"])
		c.refuseIf(len(attributes["commit"]) != 64 || strings.Trim(attributes["commit"], "0123456789abcdef") != "", at+"volumeAttributes", "needs commit, the 64 digits of a commit")
	case v1alpha1.StageDriver:
		c.refuseIf(!c.facts.Shared, at+"driver", "%q is for pods that Muster makes on a cluster, or on a machine that several users share: use a pipeline", csi.Driver)
		c.refuseIf(attributes["work"] == "", at+"volumeAttributes", "needs work, the name of a run and its stage")
	default:
		c.refuse(at+"driver", "%q is not implemented by this node; it has %s, %s and %s", csi.Driver, v1alpha1.CodeDriver, v1alpha1.EnvironmentDriver, v1alpha1.DataDriver)
	}
}

// job refuses a pod that names another job than its own: members of a job share a
// writable folder.
func (c *check) job() {
	if r := OthersJob(c.pod, c.facts.Job); r != nil {
		c.refuse(r.Field, "%s", r.Message)
	}
}

// OthersJob returns a refusal for a pod with a volume that names another job than the one
// that owns the pod; an empty UID: none does.
func OthersJob(pod *corev1.Pod, job types.UID) *Refusal {
	for i := range pod.Spec.Volumes {
		csi := pod.Spec.Volumes[i].CSI
		if csi == nil || csi.Driver != v1alpha1.CodeDriver {
			continue
		}
		named := csi.VolumeAttributes["job"]
		if named == "" || named == string(job) {
			continue
		}
		owner := "no TrainingJob owns this pod, so leave job out"
		if job != "" {
			owner = fmt.Sprintf("the TrainingJob with UID %s owns this pod, so name that or leave job out", job)
		}
		return &Refusal{Field: fmt.Sprintf("spec.volumes[%d].csi.volumeAttributes", i), Message: fmt.Sprintf("job %q: %s", named, owner)}
	}
	return nil
}

// Below is true when a clean path is a folder or lies inside it.
func Below(clean, folder string) bool {
	return clean == folder || strings.HasPrefix(clean, folder+"/")
}

// TokenPath is where the API server mounts a service account's token into
// every pod.
const TokenPath = "/var/run/secrets/kubernetes.io/serviceaccount"

// AutomaticToken is true for the mount that the API server adds to every pod
// for its service account's token. It is not the user's wish, so the plain
// tier relocates it instead of refusing every pod.
func AutomaticToken(pod *corev1.Pod, m *corev1.VolumeMount) bool {
	if path.Clean(m.MountPath) != TokenPath || !strings.HasPrefix(m.Name, "kube-api-access-") {
		return false
	}
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name && v.Projected != nil })
}

// MemberPort is the port that the scheduler gave a member of a gang; 0: none.
func MemberPort(pod *corev1.Pod) int32 {
	port, err := strconv.ParseInt(pod.Annotations[v1alpha1.AnnotationPort], 10, 32)
	if err != nil || port < 0 || port > 65535 {
		return 0
	}
	return int32(port)
}

// HostImage names the machine itself as an image: its own Python.
const HostImage = configuration.HostImage

// Environment is what an image stands for on this node: a folder with a
// virtual or conda environment, or empty for the machine itself. The second
// result is false when the image is not mapped.
func Environment(images configuration.Images, image string) (string, bool) {
	to, mapped := images.Find(image)
	return to.Folder(), mapped
}
