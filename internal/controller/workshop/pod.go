package workshop

import (
	_ "embed"
	"maps"
	"path"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// program makes the environment; the image's own Python runs it.
//
//go:embed build.py
var program string

const (
	// folder is where members find their environment, and so where it is built:
	// environments know their own path.
	folder = v1alpha1.PodRoot + "/env"
	// words is the file from which a kubelet takes what a container says of its
	// end.
	words = corev1.TerminationMessagePathDefault
	// container is the one of a build's pod.
	container = "build"

	scratch = "scratch"
	bench   = "environment"
	code    = "code"

	// packages is the folder with the packages of the code, and packagesIn the one for
	// their copies in the folder for temporary files, where they are built.
	packages   = v1alpha1.PodRoot + "/packages"
	packagesIn = "packages"

	netrc   = "netrc"
	netrcIn = v1alpha1.PodRoot + "/netrc"
)

// start looks for the image's Python, and has it run the program.
const start = `for python in ${MUSTER_PYTHON:+"python$MUSTER_PYTHON"} python3 python; do
  if command -v "$python" >/dev/null 2>&1; then exec "$python" -c "$MUSTER_PROGRAM" "$0" "$1"; fi
done
echo "the image has no Python in $PATH: name one that has" >"$1"
exit 1`

// nameOf is a build's name.
func nameOf(key string) string { return "build-" + key[:20] }

// podFor is the pod that builds an environment for who asks for it.
func (o Options) podFor(c customer, b build) *corev1.Pod {
	no := false
	seconds := int64(o.Limit.Seconds())
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.namespace, Name: nameOf(b.key), Labels: map[string]string{v1alpha1.LabelBuild: b.key[:63]},
			OwnerReferences: []metav1.OwnerReference{c.owner},
		},
		Spec: corev1.PodSpec{
			// Muster's nodes are for builds, too, where they have no others: they
			// ask for no GPU.
			SchedulerName: v1alpha1.SchedulerName, NodeSelector: o.nodesFor(b), RestartPolicy: corev1.RestartPolicyNever,
			ActiveDeadlineSeconds: &seconds, AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
			Volumes: []corev1.Volume{
				{Name: bench, VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{
					Driver: v1alpha1.EnvironmentDriver, VolumeAttributes: map[string]string{"key": b.key, "build": "true"},
				}}},
				{Name: scratch, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			},
			Containers: []corev1.Container{{
				Name: container, Image: b.image, Command: []string{"sh", "-c", start, folder, words}, Env: o.variables(b),
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("512Mi"),
				}},
				TerminationMessagePath: words, TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
				WorkingDir: "/tmp",
				VolumeMounts: []corev1.VolumeMount{
					{Name: bench, MountPath: folder}, {Name: scratch, MountPath: "/tmp"},
				},
			}},
		},
	}
	b.showPackages(&pod.Spec)
	b.showNetrc(&pod.Spec)
	asMembers(c.roles, &pod.Spec)
	o.restrict(&pod.Spec)
	if o.here() {
		// What was looked up is what is run.
		pod.Spec.Containers[0].ImagePullPolicy = corev1.PullIfNotPresent
	}
	return pod
}

// showPackages mounts the packages of the code, each alone and read-only: the build sees no other
// code.
func (b build) showPackages(pod *corev1.PodSpec) {
	if len(b.packages.Paths) == 0 {
		return
	}
	readOnly := true
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: code, VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{
		Driver: v1alpha1.CodeDriver, ReadOnly: &readOnly, VolumeAttributes: map[string]string{"snapshot": b.snapshot},
	}}})
	c := &pod.Containers[0]
	for i, at := range b.packages.Paths {
		mount := corev1.VolumeMount{Name: code, MountPath: path.Join(packages, b.packages.Folders[i], b.packages.Names[i]), ReadOnly: true}
		if at != "." {
			mount.SubPath = at
		}
		c.VolumeMounts = append(c.VolumeMounts, mount)
	}
	c.Env = append(c.Env, corev1.EnvVar{Name: "MUSTER_PACKAGES", Value: packages})
}

// showNetrc mounts the netrc of the build. If it is missing, the program fails at once.
func (b build) showNetrc(pod *corev1.PodSpec) {
	if b.secret == "" {
		return
	}
	optional := true
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: netrc, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
		SecretName: b.secret, Optional: &optional, Items: []corev1.KeyToPath{{Key: v1alpha1.NetrcKey, Path: v1alpha1.NetrcKey}},
	}}})
	c := &pod.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: netrc, MountPath: netrcIn, ReadOnly: true})
	c.Env = append(c.Env, corev1.EnvVar{Name: "MUSTER_NETRC", Value: path.Join(netrcIn, v1alpha1.NetrcKey)}, corev1.EnvVar{Name: "MUSTER_SECRET", Value: b.secret})
}

// nodesFor are the labels of nodes on which a build can run.
func (o Options) nodesFor(b build) map[string]string {
	if b.architecture == "" {
		return o.NodeSelector
	}
	out := map[string]string{corev1.LabelArchStable: b.architecture}
	maps.Copy(out, o.NodeSelector)
	return out
}

func (o Options) variables(b build) []corev1.EnvVar {
	out := []corev1.EnvVar{
		{Name: "MUSTER_PROGRAM", Value: escaped(program)}, {Name: "MUSTER_REQUIREMENTS", Value: escaped(b.requirements)}, {Name: "MUSTER_PYTHON", Value: b.python},
		{Name: "MUSTER_MOST", Value: strconv.FormatInt(o.Most, 10)}, {Name: "HOME", Value: "/tmp"}, {Name: "PIP_NO_INPUT", Value: "1"}, {Name: "PYTHONNOUSERSITE", Value: "1"},
	}
	if o.Index != "" {
		out = append(out, corev1.EnvVar{Name: "PIP_INDEX_URL", Value: escaped(o.Index)})
	}
	for _, v := range o.Variables {
		v.Value = escaped(v.Value)
		out = append(out, v)
	}
	return out
}

// escaped keeps a kubelet from taking anything in a value for a reference to
// another variable.
func escaped(value string) string { return strings.ReplaceAll(value, "$", "$$") }

// asMembers has the build run with the rights that the members have, from an image
// that is pulled as theirs is.
func asMembers(roles []v1alpha1.Role, pod *corev1.PodSpec) {
	for i := range roles {
		from := roles[i].Template
		if from == nil {
			continue
		}
		pod.ImagePullSecrets, pod.SecurityContext = from.Spec.ImagePullSecrets, from.Spec.SecurityContext.DeepCopy()
		if len(from.Spec.Containers) > 0 {
			pod.Containers[0].ImagePullPolicy = from.Spec.Containers[0].ImagePullPolicy
			pod.Containers[0].SecurityContext = from.Spec.Containers[0].SecurityContext.DeepCopy()
		}
		return
	}
}

// restrict takes from a build the rights that no installation of packages needs: it
// runs code of packages. On one machine programs run unconfined, and a pod that asks
// for less is refused there.
func (o Options) restrict(pod *corev1.PodSpec) {
	c := &pod.Containers[0]
	if c.SecurityContext == nil && o.here() {
		return
	}
	if c.SecurityContext == nil {
		c.SecurityContext = &corev1.SecurityContext{}
	}
	s := c.SecurityContext
	s.Privileged, s.ProcMount = nil, nil
	if s.Capabilities != nil {
		s.Capabilities.Add = nil
	}
	if o.here() {
		return
	}
	no := false
	s.AllowPrivilegeEscalation = &no
	if s.SeccompProfile == nil && (pod.SecurityContext == nil || pod.SecurityContext.SeccompProfile == nil) {
		s.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	}
}
