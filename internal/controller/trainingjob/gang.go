package trainingjob

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/environment/source"
)

const (
	// hostImage is the image name that means the machine's own Python.
	hostImage = v1alpha1.HostImage
	// mainContainer is the member's container where the template names none.
	mainContainer = "main"

	codeDir        = v1alpha1.PodRoot + "/code"
	codeCopyDir    = v1alpha1.PodRoot + "/.code-copy"
	environmentDir = v1alpha1.PodRoot + "/env"
	checkpointsDir = v1alpha1.CheckpointsPath
	logsDir        = v1alpha1.PodRoot + "/logs"

	// Pod volume names begin with this, so that they do not meet those of the
	// user's template.
	volumePrefix = "muster-"
)

// defaultRequests are what a member asks for that says nothing.
var defaultRequests = corev1.ResourceList{
	corev1.ResourceCPU:    resource.MustParse("100m"),
	corev1.ResourceMemory: resource.MustParse("128Mi"),
}

// defaultBackoffLimit is how many failures are restarted.
const defaultBackoffLimit = 6

// gangFor is the gang that runs the job with what was prepared for it.
func gangFor(job *v1alpha1.TrainingJob, p preparation) *v1alpha1.Gang {
	gang := &v1alpha1.Gang{
		ObjectMeta: owned(job, job.Name),
		Spec: v1alpha1.GangSpec{
			Rendezvous:   framework(job),
			Restart:      restartScope(job),
			DoneWhen:     doneWhen(job),
			BackoffLimit: backoffLimit(job),
			CleanUp:      job.Spec.CleanUp, SparseCluster: job.Spec.SparseCluster,
			Queue:    queue(job),
			Topology: job.Spec.Topology.DeepCopy(),
			Suspend:  job.Spec.Suspend,
		},
	}
	forecast(&gang.Spec, job)
	gang.Finalizers = []string{v1alpha1.GangFinalizer}
	gang.Annotations = map[string]string{AnnotationSpec: fingerprints(&job.Spec).encode()}
	for _, key := range []string{v1alpha1.AnnotationSubmitter, v1alpha1.AnnotationAuthenticated} {
		if said := job.Annotations[key]; said != "" {
			gang.Annotations[key] = said
		}
	}
	for i := range job.Spec.Roles {
		role := &job.Spec.Roles[i]
		wants, _ := gpus(role) // checked before
		gang.Spec.Roles = append(gang.Spec.Roles, v1alpha1.GangRole{
			Name: role.Name, Replicas: replicas(role), MinReplicas: role.MinReplicas, GPUs: wants, GPUMemory: role.GPUMemory, GPUModels: role.GPUModels, Spread: role.Spread.DeepCopy(),
			RestartPolicy: restartPolicy(job, role), PortName: role.PortName, IndexLabels: role.IndexLabels, FirstLabels: role.FirstLabels, Template: templateFor(job, role, p),
		})
	}
	return gang
}

// longestLimit is the longest time limit that a gang is told of: what is longer
// is all the same to whoever plans.
const longestLimit = 99999 * time.Hour

// forecast passes on what is said of how long the job will run, and whether it
// may be stopped for the sake of shorter work. All of it may change while the
// gang runs.
func forecast(spec *v1alpha1.GangSpec, job *v1alpha1.TrainingJob) {
	spec.ExpectedRunTime, spec.TimeLimit, spec.StartTimeout, spec.Resumable = nil, nil, nil, job.Spec.Resumable
	if d := job.Spec.StartTimeout; d != nil {
		spec.StartTimeout = &metav1.Duration{Duration: d.Duration}
	}
	if d := job.Spec.ExpectedRunTime; d != nil {
		spec.ExpectedRunTime = &metav1.Duration{Duration: d.Duration}
	}
	if job.Spec.ActiveDeadlineSeconds != nil {
		spec.TimeLimit = &metav1.Duration{Duration: min(limit(job), longestLimit)}
	}
}

// doneWhen is the success policy: what the job names; else the chief's success where there is a chief;
// else that of every role but the parameter servers and the evaluator, which
// never end by themselves; and where those are all there is, of all roles.
func doneWhen(job *v1alpha1.TrainingJob) []string {
	if len(job.Spec.DoneWhen) > 0 {
		return job.Spec.DoneWhen
	}
	var working, all []string
	for i := range job.Spec.Roles {
		switch name := job.Spec.Roles[i].Name; name {
		case "chief":
			return []string{name}
		case "ps", "evaluator":
			all = append(all, name)
		default:
			working, all = append(working, name), append(all, name)
		}
	}
	if len(working) == 0 {
		return all
	}
	return working
}

// restartScope says what a failure takes along: what the job says; else collective
// communication does not survive the loss of a rank.
func restartScope(job *v1alpha1.TrainingJob) v1alpha1.RestartScope {
	if job.Spec.Restart != "" {
		return job.Spec.Restart
	}
	if job.Spec.Framework == v1alpha1.FrameworkPyTorch {
		return v1alpha1.RestartScopeGang
	}
	return v1alpha1.RestartScopeMember
}

func framework(job *v1alpha1.TrainingJob) v1alpha1.Framework {
	if job.Spec.Framework == "" {
		return v1alpha1.FrameworkNone
	}
	return job.Spec.Framework
}

func backoffLimit(job *v1alpha1.TrainingJob) int32 {
	if job.Spec.BackoffLimit == nil {
		return defaultBackoffLimit
	}
	return *job.Spec.BackoffLimit
}

func queue(job *v1alpha1.TrainingJob) string {
	return cmp.Or(job.Spec.Queue, v1alpha1.DefaultQueue)
}

func replicas(role *v1alpha1.Role) int32 {
	if role.Replicas == nil {
		return 1
	}
	return *role.Replicas
}

// image is what the role's members run on.
func image(job *v1alpha1.TrainingJob, role *v1alpha1.Role) string {
	if env := job.Spec.Environment; env != nil && env.Image != "" {
		return env.Image
	}
	if role.Template != nil && len(role.Template.Spec.Containers) > 0 && role.Template.Spec.Containers[0].Image != "" {
		return role.Template.Spec.Containers[0].Image
	}
	return hostImage
}

// scriptOf is the role's script as a path; a script that is named by the URL
// that it is fetched from is the file that it is fetched into.
func scriptOf(job *v1alpha1.TrainingJob, role *v1alpha1.Role) string {
	if strings.HasPrefix(role.Script, "http://") || strings.HasPrefix(role.Script, "https://") {
		return source.FileName(role.Script)
	}
	if code := job.Spec.Code; code != nil && code.URL != "" && role.Script == "" && len(role.Command) == 0 && role.Template == nil {
		return source.FileName(code.URL)
	}
	return role.Script
}

// python is the interpreter's name: an environment has a python, a machine
// often only a python3.
func python(job *v1alpha1.TrainingJob, role *v1alpha1.Role, p preparation) string {
	if p.environment != "" || p.image(job, role) != hostImage {
		return "python"
	}
	return "python3"
}

// templateFor is the pod of each of the role's members: the role's fields laid
// over its template.
func templateFor(job *v1alpha1.TrainingJob, role *v1alpha1.Role, p preparation) corev1.PodTemplateSpec {
	template := corev1.PodTemplateSpec{}
	if role.Template != nil {
		template = *role.Template.DeepCopy()
	}
	if template.Labels == nil {
		template.Labels = map[string]string{}
	}
	reserved := func(key, _ string) bool { return v1alpha1.Reserved(key) } // an older job may have such keys
	maps.DeleteFunc(template.Labels, reserved)
	maps.DeleteFunc(template.Annotations, reserved)
	template.Labels[v1alpha1.LabelJob] = job.Name
	pod := &template.Spec
	pod.RestartPolicy = corev1.RestartPolicyNever // the gang restarts its members
	if job.Spec.PriorityClassName != "" {
		// What a template says of it belongs to another class.
		pod.PriorityClassName, pod.Priority, pod.PreemptionPolicy = job.Spec.PriorityClassName, nil, nil
	}
	if pod.EnableServiceLinks == nil {
		pod.EnableServiceLinks = new(bool)
	}
	if len(pod.Containers) == 0 {
		pod.Containers = []corev1.Container{{}}
	}
	main := &pod.Containers[0]
	if main.Name == "" {
		main.Name = mainContainer
	}
	main.Image = p.image(job, role)
	if script := scriptOf(job, role); script != "" {
		main.Command, main.Args = []string{python(job, role, p), script}, nil
	}
	if len(role.Command) > 0 {
		main.Command, main.Args = role.Command, nil
	}
	if len(role.Args) > 0 {
		main.Args = role.Args
	}
	if job.Spec.Code != nil || main.WorkingDir == "" && main.Image == hostImage {
		main.WorkingDir = codeDir // an image with the job's code in it has its own
	}
	main.Env = activate(p, envFor(job, role, main.Env, main.WorkingDir))
	main.Resources = resourcesFor(role, main.Resources)
	volumesFor(job, p, pod, main)
	serveData(p, pod, main)
	besideAgents(p.agentNodes, pod)
	onArchitecture(p.architecture, pod)
	reportsFor(p.reports, &template, main)
	if p.shareProcesses { // a kubelet runs it
		askTree(main)
	}
	if p.shareProcesses && pod.ShareProcessNamespace == nil && len(pod.Containers) == 1 && !pod.HostPID {
		yes := true
		pod.ShareProcessNamespace = &yes
	}
	return template
}

// bringsItsOwn reports that the job's code is in its image, which then says
// where its commands run.
func bringsItsOwn(job *v1alpha1.TrainingJob) bool {
	return job.Spec.Code == nil && job.Spec.Environment != nil && job.Spec.Environment.Image != ""
}

// envFor is the member's environment, in the order in which later variables
// may refer to earlier ones: Muster's, the template's, the job's, the role's.
// A variable that is given twice has its last value, in its last place.
func envFor(job *v1alpha1.TrainingJob, role *v1alpha1.Role, template []corev1.EnvVar, workingDir string) []corev1.EnvVar {
	all := []corev1.EnvVar{
		{Name: v1alpha1.EnvRoot, Value: v1alpha1.PodRoot},
		{Name: v1alpha1.EnvJob, Value: job.Name},
		{Name: "MUSTER_CODE_DIR", Value: below(codeDir)},
	}
	all = append(all, dataEnv(job, workingDir)...)
	if !keepsNothing(job) {
		all = append(all, corev1.EnvVar{Name: "MUSTER_CHECKPOINT_DIR", Value: below(checkpointsDir)}, corev1.EnvVar{Name: "MUSTER_LOG_DIR", Value: below(logsDir)})
	}
	all = append(all, corev1.EnvVar{Name: v1alpha1.EnvProgress, Value: below(v1alpha1.ProgressPath)}, corev1.EnvVar{Name: "PYTHONUNBUFFERED", Value: "1"})
	all = append(all, template...)
	all = append(all, job.Spec.Env...)
	all = append(all, role.Env...)
	last := map[string]int{}
	for i := range all {
		if all[i].Name != v1alpha1.EnvRoot || i == 0 {
			last[all[i].Name] = i
		}
	}
	out := make([]corev1.EnvVar, 0, len(all))
	for i := range all {
		if at, ok := last[all[i].Name]; ok && at == i {
			out = append(out, all[i])
		}
	}
	return out
}

// below is a path below the root, as variables say it.
func below(dir string) string {
	return "$(" + v1alpha1.EnvRoot + ")" + strings.TrimPrefix(dir, v1alpha1.PodRoot)
}

// activate has the member use its environment, as a node does that starts members
// itself: its programs come first in PATH, which is the image's unless somebody
// set another.
func activate(p preparation, env []corev1.EnvVar) []corev1.EnvVar {
	if p.searchPath == "" {
		return env
	}
	const bin = environmentDir + "/bin:"
	for i := range env {
		if env[i].Name == "PATH" && env[i].ValueFrom == nil {
			env[i].Value = bin + env[i].Value
			return env
		}
	}
	// After the root, which is always the first.
	return slices.Insert(env, 1, corev1.EnvVar{Name: "PATH", Value: bin + p.searchPath}, corev1.EnvVar{Name: "VIRTUAL_ENV", Value: environmentDir})
}

// resourcesFor is CPU and memory. GPUs are the gang role's: which ones, and so
// whether the member gets any, is the scheduler's plan.
func resourcesFor(role *v1alpha1.Role, template corev1.ResourceRequirements) corev1.ResourceRequirements {
	out := corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Claims: append(template.Claims, role.Resources.Claims...)}
	limits := corev1.ResourceList{}
	for _, list := range []corev1.ResourceList{template.Limits, role.Resources.Limits} {
		for name, q := range list {
			limits[name] = q
		}
	}
	for _, list := range []corev1.ResourceList{template.Requests, role.Resources.Requests} {
		for name, q := range list {
			out.Requests[name] = q
		}
	}
	for name, q := range defaultRequests {
		_, requested := out.Requests[name]
		_, limited := limits[name] // which counts as the request
		if !requested && !limited {
			out.Requests[name] = q
		}
	}
	for _, name := range []corev1.ResourceName{v1alpha1.ResourceGPU, v1alpha1.ResourceGPUMilli, v1alpha1.ResourceGPUMemory} {
		delete(limits, name)
		delete(out.Requests, name)
	}
	if len(limits) > 0 {
		out.Limits = limits
	}
	return out
}

// volumesFor mounts code, environment, checkpoints, data and the job's volumes.
func volumesFor(job *v1alpha1.TrainingJob, p preparation, pod *corev1.PodSpec, main *corev1.Container) {
	add := func(name string, from corev1.VolumeSource, mounts ...corev1.VolumeMount) {
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: volumePrefix + name, VolumeSource: from})
		for _, m := range mounts {
			m.Name = volumePrefix + name
			main.VolumeMounts = append(main.VolumeMounts, m)
		}
	}
	// 1. The code; a job without any works in an empty folder.
	code := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	if p.code != "" {
		attributes := map[string]string{"snapshot": p.code, "job": string(job.UID)}
		if p.ownCode {
			attributes["copy"] = v1alpha1.CodeCopyVolume
			pod.Volumes = append(pod.Volumes, corev1.Volume{
				Name: v1alpha1.CodeCopyVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
			})
			// A kubelet makes what a container mounts, and nothing else.
			main.VolumeMounts = append(main.VolumeMounts, corev1.VolumeMount{Name: v1alpha1.CodeCopyVolume, MountPath: codeCopyDir})
		}
		code = inline(v1alpha1.CodeDriver, false, attributes)
	}
	add("code", code, corev1.VolumeMount{MountPath: codeDir})
	// 2. The environment.
	switch {
	case p.environmentPath != "":
		add("env", inline(v1alpha1.EnvironmentDriver, true, map[string]string{"path": p.environmentPath}), corev1.VolumeMount{MountPath: environmentDir, ReadOnly: true})
	case p.environment != "":
		attributes := map[string]string{"key": p.environment}
		if p.inImage {
			attributes["image"] = "true"
		}
		add("env", inline(v1alpha1.EnvironmentDriver, true, attributes), corev1.VolumeMount{MountPath: environmentDir, ReadOnly: true})
	}
	// 3. What survives restarts.
	if !keepsNothing(job) {
		add("checkpoints", claimed(checkpointClaimName(job), false),
			corev1.VolumeMount{MountPath: checkpointsDir, SubPath: "checkpoints"}, corev1.VolumeMount{MountPath: logsDir, SubPath: "logs"})
	}
	// 4. What it reads.
	for i := range p.data {
		d := &p.data[i]
		attributes := map[string]string{"commit": string(d.Commit), "path": d.Path, "key": d.Key, "words": dataWords(d)}
		if d.Lazy {
			attributes["lazy"] = "true"
		}
		add(fmt.Sprint("data-", i), inline(v1alpha1.DataDriver, true, attributes),
			corev1.VolumeMount{MountPath: within(main.WorkingDir, d.Mount), ReadOnly: true})
	}
	// 5. The job's volumes.
	for i := range job.Spec.Volumes {
		v := &job.Spec.Volumes[i]
		add("volume-"+v.Name, claimed(volumeClaimName(job, v), v.ReadOnly), corev1.VolumeMount{MountPath: within(main.WorkingDir, v.MountPath), ReadOnly: v.ReadOnly})
	}
}

// within is a mount path; a relative one is below the working directory.
func within(dir, mount string) string {
	if at := path.Clean(mount); path.IsAbs(at) {
		return at
	}
	return path.Join(dir, mount)
}

// reportsFor gives a member the folder in which it says how far it is, where its
// node makes none. What the user mounts there is left alone.
func reportsFor(to Reports, template *corev1.PodTemplateSpec, main *corev1.Container) {
	if to == ReportsToNode {
		return
	}
	at := path.Dir(v1alpha1.ProgressPath)
	if slices.ContainsFunc(main.VolumeMounts, func(m corev1.VolumeMount) bool { return path.Clean(m.MountPath) == at }) {
		return
	}
	template.Spec.Volumes = append(template.Spec.Volumes, corev1.Volume{
		Name: v1alpha1.ProgressVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
	})
	main.VolumeMounts = append(main.VolumeMounts, corev1.VolumeMount{Name: v1alpha1.ProgressVolume, MountPath: at})
	if to == ReportsToNobody {
		if template.Annotations == nil {
			template.Annotations = map[string]string{}
		}
		template.Annotations[v1alpha1.AnnotationReports] = v1alpha1.ReportsUnread
	}
}

func inline(driver string, readOnly bool, attributes map[string]string) corev1.VolumeSource {
	return corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: driver, ReadOnly: &readOnly, VolumeAttributes: attributes}}
}

func claimed(name string, readOnly bool) corev1.VolumeSource {
	return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name, ReadOnly: readOnly}}
}
