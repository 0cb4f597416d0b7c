package pipeline

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/environment"
	"github.com/muster-dev/muster/internal/pipeline"
	"github.com/muster-dev/muster/internal/spark"
)

const (
	// The roles of a Spark stage.
	driverRole   = "driver"
	executorRole = "executor"
	// javaHome is the variable that names a Java.
	javaHome = "JAVA_HOME"
)

// What members of a Spark stage ask for that say nothing.
var (
	executorRequests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	driverRequests   = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("1Gi")}
)

// spark finds the Spark and the Java of a stage: before anything waits for them. Java
// counts for results, as the interpreter does; its folder is returned.
func (c *Runs) spark(ctx context.Context, stage *pipeline.Stage, print *pipeline.Fingerprint) (string, error) {
	where := spark.Where{Python: "python3", MachineJava: os.Getenv(javaHome)}
	for _, v := range stage.Spec.Env {
		if v.Name == javaHome {
			where.JavaHome = v.Value
		}
	}
	if env := environmentOf(stage); env != nil && (env.Requirements != "" || env.Path != "" || env.Python != "") {
		state := c.deps.Machine.Environments.Ensure(environment.Request{Requirements: env.Requirements, Python: env.Python, Path: env.Path})
		where.Python = filepath.Join(state.Path, "bin", "python")
	}
	found, err := spark.Find(ctx, where)
	if ctx.Err() != nil {
		return "", errors.Join(ctx.Err(), err)
	}
	if err != nil {
		return "", &unfit{"spark: " + err.Error()}
	}
	print.ID += " java " + found.Java
	print.Parts["java"] = found.Java
	return found.JavaHome, nil
}

// sparkJob is the job of a Spark stage: the driver, whose end is the job's, and
// executors, of which there may be more and fewer while it runs.
func sparkJob(run *v1alpha1.PipelineRun, stage *pipeline.Stage, w *resolved, muster, datum string) *v1alpha1.TrainingJob {
	spec, one := stage.Spec.Spark, int32(1)
	least, most := one, one
	if e := spec.Executors; e != nil {
		most, least = e.Max, min(one, e.Max)
		if e.Min != nil {
			least = *e.Min
		}
	}
	executors := asking(spec.Resources, executorRequests)
	driver := asking(spec.DriverResources, driverRequests)
	heap := strconv.FormatInt(spark.Heap(amount(executors, corev1.ResourceMemory).Value()>>20), 10)
	words := []string{muster, "spark", driverRole, "--datum", datum, "--python", program(stage).Python, "--script", spec.Script,
		"--tries", strconv.Itoa(int(*stage.Spec.Tries)), "--executor-heap", heap,
		"--heap", strconv.FormatInt(spark.Heap(amount(driver, corev1.ResourceMemory).Value()>>20), 10)}
	if limit := stage.Spec.Timeout; limit != nil {
		words = append(words, "--timeout", limit.Duration.String())
	}
	job := &v1alpha1.TrainingJob{ObjectMeta: jobMeta(run, stage.Name)}
	job.Spec = v1alpha1.TrainingJobSpec{
		Framework: v1alpha1.FrameworkNone, DoneWhen: []string{driverRole},
		Environment: stage.Spec.Environment, Env: append(folderEnv(stage, datum), stage.Spec.Env...),
		Queue: run.Spec.Queue, Checkpoints: &v1alpha1.Checkpoints{None: true},
		Roles: []v1alpha1.Role{
			// What the script comes to, its driver says; what ends the driver itself
			// is another matter.
			{Name: driverRole, Replicas: &one, Command: append(append(words, "--"), spec.Args...), Resources: driver, RestartPolicy: v1alpha1.RestartExitCode, Template: scratch()},
			{Name: executorRole, Replicas: &most, Resources: executors, GPUs: spec.GPUs, GPUMemory: spec.GPUMemory, GPUModels: spec.GPUModels,
				Command: []string{muster, "spark", executorRole, "--datum", datum, "--python", program(stage).Python, "--heap", heap,
					"--slots", strconv.FormatInt(spark.Slots(amount(executors, corev1.ResourceCPU).MilliValue()), 10)},
				RestartPolicy: v1alpha1.RestartOnFailure, Template: scratch()},
		},
	}
	if least < most {
		job.Spec.Roles[1].MinReplicas = &least
	}
	if w.java != "" {
		job.Spec.Env = append(job.Spec.Env, corev1.EnvVar{Name: javaHome, Value: w.java})
	}
	backoff, ttl := int32(workerBackoff), int32(jobTTL)
	job.Spec.BackoffLimit, job.Spec.TTLSecondsAfterFinished = &backoff, &ttl
	if w.code != "" {
		job.Spec.Code = &v1alpha1.Code{Snapshot: w.code}
	}
	return job
}

// asking is what a member asks for, with defaults where it says nothing.
func asking(said *corev1.ResourceRequirements, defaults corev1.ResourceList) corev1.ResourceRequirements {
	var out corev1.ResourceRequirements
	if said != nil {
		out = *said.DeepCopy()
	}
	for name, q := range defaults {
		_, limited := out.Limits[name] // which counts as the request
		if _, requested := out.Requests[name]; requested || limited {
			continue
		}
		if out.Requests == nil {
			out.Requests = corev1.ResourceList{}
		}
		out.Requests[name] = q
	}
	return out
}

// amount is how much of something a member may use: its limit, else its request.
func amount(r corev1.ResourceRequirements, name corev1.ResourceName) *resource.Quantity {
	if q, ok := r.Limits[name]; ok {
		return &q
	}
	q := r.Requests[name]
	return &q
}

// scratch is a pod with a folder of its own for Spark's files, which goes with it.
func scratch() *corev1.PodTemplateSpec {
	return mounting(v1alpha1.SparkPath)
}

// sparkProblem is why the job of a Spark stage failed: as its driver has said, else
// as the job does.
func sparkProblem(datum, problem string) string {
	o, ok := spark.Outcome(datum)
	if !ok {
		return problem
	}
	return cmp.Or(strings.TrimSpace(o.Error), problem)
}
