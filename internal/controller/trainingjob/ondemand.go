package trainingjob

import (
	"path"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/agent/ondemand"
)

const (
	// dataServer is the container that serves what members read as they ask for it.
	dataServer = volumePrefix + "data"
	// deskDir is where it finds the agent, and its program; servingDir is where it says
	// that it serves.
	deskDir    = v1alpha1.PodRoot + "/.data"
	servingDir = v1alpha1.PodRoot + "/.serving"
	// nobody is the user that it runs as.
	nobody = 65534
	// startChecks is for how many seconds it may take to serve: longer than a member may
	// take to start.
	startChecks = 3600
)

// What the container that serves data may use.
var (
	serverRequests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("256Mi")}
	serverCPU      = resource.MustParse("2")
)

const (
	// serverMemory is what it may have in any case: for what is read at once, and the
	// folders of packs. perMount is for the 64 MiB that are kept of each mount, and
	// perFile for a name that the kernel knows: how many it does is not for the container
	// to say, and may be all where the member has much memory.
	serverMemory = 896 << 20
	perMount     = 128 << 20
	perFile      = 192
	// memoryGoal is the part of that, in percent, that its collector is told.
	memoryGoal = 75
)

// memoryFor is how much memory it takes to serve what of a job's data is lazy.
func memoryFor(all []v1alpha1.JobDataStatus) int64 {
	bytes := int64(serverMemory)
	for _, d := range all {
		if d.Lazy {
			bytes += perMount + perFile*d.Files
		}
	}
	return bytes
}

// serveData puts into a pod what serves the data that its member reads as it asks for
// it, before anything else starts: where nodes do not do so themselves.
func serveData(p preparation, pod *corev1.PodSpec, main *corev1.Container) {
	if !p.servesData || !slices.ContainsFunc(p.data, func(d v1alpha1.JobDataStatus) bool { return d.Lazy }) {
		return
	}
	small := resource.MustParse("1Mi")
	desk, serving := volumePrefix+"desk", volumePrefix+"serving"
	pod.Volumes = append(pod.Volumes,
		corev1.Volume{Name: desk, VolumeSource: inline(v1alpha1.DataDriver, true, map[string]string{"desk": "true"})},
		corev1.Volume{Name: serving, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &small}}},
	)
	program, ready := path.Join(deskDir, ondemand.ProgramFile), path.Join(servingDir, "ready")
	always, yes, no, user := corev1.ContainerRestartPolicyAlways, true, false, int64(nobody)
	memory := memoryFor(p.data)
	server := corev1.Container{
		Name: dataServer, Image: main.Image, ImagePullPolicy: main.ImagePullPolicy, RestartPolicy: &always,
		Command: []string{program, ondemand.Verb, "--desk", deskDir, "--ready", ready},
		Env:     []corev1.EnvVar{{Name: "GOMEMLIMIT", Value: strconv.FormatInt(memory/100*memoryGoal, 10)}},
		Resources: corev1.ResourceRequirements{
			Requests: serverRequests.DeepCopy(), Limits: corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(memory, resource.BinarySI)},
		},
		VolumeMounts: []corev1.VolumeMount{
			{Name: desk, MountPath: deskDir, ReadOnly: true}, {Name: serving, MountPath: servingDir},
		},
		StartupProbe: &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{program, ondemand.Verb, "--ask", "--ready", ready}}},
			PeriodSeconds: 1, TimeoutSeconds: 5, FailureThreshold: startChecks,
		},
		// What is wrong is in the pod's status then, and so in what the job says.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		SecurityContext: &corev1.SecurityContext{
			RunAsUser: &user, RunAsNonRoot: &yes, AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
			Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}
	if _, limited := main.Resources.Limits[corev1.ResourceCPU]; limited { // a quota may want all to have a limit
		server.Resources.Limits[corev1.ResourceCPU] = serverCPU
	}
	pod.InitContainers = slices.Insert(pod.InitContainers, 0, server)
}
