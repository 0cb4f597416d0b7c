package pipeline

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/foreman/shift"
	"github.com/muster-dev/muster/internal/foreman/worker"
	"github.com/muster-dev/muster/internal/pipeline"
)

const (
	// workerRole is the role of workers.
	workerRole = "worker"
	// workerBackoff is how often workers of a stage may die: of what kills them,
	// datums have their own count of tries.
	workerBackoff = 100
	// jobTTL is how long a job of a stage is kept once it has ended.
	jobTTL = 3600
	// maxJobName is the longest name of a TrainingJob.
	maxJobName = 48
)

// jobName is that of the job that computes a stage.
func jobName(run *v1alpha1.PipelineRun, stage string) string {
	name := run.Name + "-" + stage
	if len(name) <= maxJobName {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return run.Name[:min(len(run.Name), maxJobName-9)] + "-" + hex.EncodeToString(sum[:4])
}

// jobMeta is what the job of a stage is known by.
func jobMeta(run *v1alpha1.PipelineRun, stage string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: run.Namespace, Name: jobName(run, stage),
		Labels:          map[string]string{v1alpha1.LabelPipeline: run.Spec.Pipeline, v1alpha1.LabelRun: run.Name, v1alpha1.LabelStage: stage},
		Annotations:     submitter(run.Annotations),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(run, v1alpha1.GroupVersion.WithKind("PipelineRun"))},
	}
}

// submitter returns those of an object's annotations that name its submitter, for objects that
// a controller makes from it.
func submitter(annotations map[string]string) map[string]string {
	out := map[string]string{}
	for _, key := range []string{v1alpha1.AnnotationSubmitter, v1alpha1.AnnotationAuthenticated} {
		if said := annotations[key]; said != "" {
			out[key] = said
		}
	}
	return out
}

// workersJob is the job whose members compute the datums of a stage.
func workersJob(run *v1alpha1.PipelineRun, stage *pipeline.Stage, code, program, folder string, datums int) *v1alpha1.TrainingJob {
	spec := &stage.Spec
	least, most := int32(1), int32(1)
	if p := spec.Parallelism; p != nil {
		most = p.Max
		if p.Min != nil {
			least = *p.Min
		}
	}
	most = max(1, min(most, int32(min(datums, 1000))))
	least = min(least, most)
	role := v1alpha1.Role{
		Name: workerRole, Replicas: &most,
		Command: []string{program, "worker", "--work", folder, "--gpus", strconv.FormatFloat(gpusOf(stage), 'f', -1, 64)},
		GPUs:    spec.GPUs, GPUMemory: spec.GPUMemory, GPUModels: spec.GPUModels, RestartPolicy: v1alpha1.RestartOnFailure,
	}
	if least < most {
		role.MinReplicas = &least
	}
	if spec.Resources != nil {
		role.Resources = *spec.Resources
	}
	if at := mountOf(stage); at != "" {
		role.Template = mounting("datum", at)
	}
	job := &v1alpha1.TrainingJob{ObjectMeta: jobMeta(run, stage.Name)}
	job.Spec = v1alpha1.TrainingJobSpec{
		Framework: v1alpha1.FrameworkNone, Roles: []v1alpha1.Role{role}, Environment: spec.Environment, Env: spec.Env,
		Queue: run.Spec.Queue, Checkpoints: &v1alpha1.Checkpoints{None: true},
	}
	backoff, ttl := int32(workerBackoff), int32(jobTTL)
	job.Spec.BackoffLimit, job.Spec.TTLSecondsAfterFinished = &backoff, &ttl
	if code != "" {
		job.Spec.Code = &v1alpha1.Code{Snapshot: code}
	}
	return job
}

// gpusOf is how many GPUs each worker of a stage holds.
func gpusOf(stage *pipeline.Stage) float64 {
	if stage.Spec.GPUs == nil {
		return 0
	}
	return stage.Spec.GPUs.AsApproximateFloat64()
}

// mounting is a pod with a folder of its own at a path: in one, say, its worker shows the
// datum that it has. A tier that cannot mount refuses it by the field's name.
func mounting(name, path string) *corev1.PodTemplateSpec {
	return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		Containers: []corev1.Container{{VolumeMounts: []corev1.VolumeMount{{Name: name, MountPath: path}}}},
		Volumes:    []corev1.Volume{{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
	}}
}

// trainingJob is the job of a training stage, over one datum that is everything.
// Its members see the datum's folder, or are shown it, or are sent what is in it.
func (m *Machine) trainingJob(run *v1alpha1.PipelineRun, stage *pipeline.Stage, code, datum string, apart bool) (*v1alpha1.TrainingJob, error) {
	job := &v1alpha1.TrainingJob{ObjectMeta: jobMeta(run, stage.Name), Spec: *stage.Spec.Training.DeepCopy()}
	spec := &job.Spec
	if code != "" {
		spec.Code = &v1alpha1.Code{Snapshot: code}
	}
	if spec.Environment == nil {
		spec.Environment = stage.Spec.Environment
	}
	if spec.Queue == "" {
		spec.Queue = run.Spec.Queue
	}
	if spec.BackoffLimit == nil {
		backoff := *stage.Spec.Tries - 1
		spec.BackoffLimit = &backoff
	}
	switch {
	case m.carries():
		datum = m.lend(job, workName(run, stage.Name), mountOf(stage), nil)
	case apart:
		if err := errors.Join(shared(job, datum, 0o755), appear(job, stage, datum, datumDir)); err != nil {
			return nil, err
		}
		datum = datumDir
	default:
		if err := appear(job, stage, datum, datum); err != nil {
			return nil, err
		}
	}
	env := append(folderEnv(stage, datum), stage.Spec.Env...)
	spec.Env = append(env, spec.Env...)
	return job, nil
}

// shownVolume is the volume at the path that a stage of training or Spark names.
const shownVolume = "muster-shown"

// mountOf is the path at which a stage's files appear; empty: it names none.
func mountOf(stage *pipeline.Stage) string {
	if at := stage.Spec.MountPath; at != "" {
		return path.Clean(at)
	}
	return ""
}

// appear has the members of a stage that share the datum's folder, which they know as
// seen, find its files by their names at the path that the stage names, if it names one.
// They cannot change what is there: it is one folder for all of them, and links.
func appear(job *v1alpha1.TrainingJob, stage *pipeline.Stage, datum, seen string) error {
	mount := mountOf(stage)
	if mount == "" {
		return nil
	}
	shown := filepath.Join(filepath.Dir(datum), shift.ShownFolder)
	err := os.RemoveAll(shown)
	if err == nil {
		err = os.Mkdir(shown, 0o755)
	}
	if err != nil {
		return fmt.Errorf("making a folder for what is at mountPath: %w", err)
	}
	if err := worker.Show(shown, datum, seen, inputNames(stage)); err != nil {
		return err
	}
	for i := range job.Spec.Roles {
		show(&job.Spec.Roles[i], shownVolume, mount, true, hostFolder(shown))
	}
	return nil
}

// folderEnv says where the inputs and the output of a datum are that is everything.
func folderEnv(stage *pipeline.Stage, datum string) []corev1.EnvVar {
	env := []corev1.EnvVar{{Name: "MUSTER_OUTPUT", Value: filepath.Join(datum, shift.OutFolder)}}
	for _, name := range inputNames(stage) {
		env = append(env, corev1.EnvVar{Name: worker.InputVariable(name), Value: filepath.Join(datum, shift.InFolder, name)})
	}
	return env
}

// inputNames are the names of a stage's inputs, each once.
func inputNames(stage *pipeline.Stage) []string {
	var out []string
	known := map[string]bool{}
	for _, s := range stage.Sources {
		if !known[s.Name] {
			known[s.Name] = true
			out = append(out, s.Name)
		}
	}
	return out
}

// program is what workers of a stage run.
func program(stage *pipeline.Stage) shift.Program {
	spec := &stage.Spec
	p := shift.Program{Command: spec.Command, Script: spec.Script, Args: spec.Args, Python: "python3", Stdin: spec.Stdin, Inputs: inputNames(stage), Mount: mountOf(stage), Batch: spec.Batch, Pachyderm: stage.Pachyderm()}
	if env := spec.Environment; env != nil && *env != (v1alpha1.Environment{}) {
		p.Python = "python"
	}
	if spec.Timeout != nil {
		p.Timeout = spec.Timeout.Duration
	}
	return p
}
