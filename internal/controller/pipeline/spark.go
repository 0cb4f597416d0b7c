package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/foreman"
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
func (c *Runs) spark(ctx context.Context, run *v1alpha1.PipelineRun, stage *pipeline.Stage, print *pipeline.Fingerprint) (string, error) {
	where := spark.Where{Python: "python3", MachineJava: os.Getenv(javaHome), Run: c.deps.Machine.runFor(run.Namespace)}
	for _, v := range stage.Spec.Env {
		if v.Name == javaHome {
			where.JavaHome = v.Value
		}
	}
	env := environmentOf(stage)
	if name := c.deps.Machine.imageOf(stage); name != "" { // it stands for this machine's
		env = standsFor(c.deps.Machine.Images.Ensure(name, run.CreationTimestamp.Time))
	}
	if packaged(env) {
		state := c.deps.Machine.Environments.EnsureFor(run, nil, requestOf(run, env, ""))
		where.Python = filepath.Join(state.Path, "bin", "python")
	}
	found, err := spark.Find(ctx, where)
	if ctx.Err() != nil {
		return "", errors.Join(ctx.Err(), err)
	}
	if spark.Passing(err) {
		return "", &notYet{message: "spark: " + err.Error()}
	}
	if err != nil {
		return "", &unfit{"spark: " + err.Error()}
	}
	print.ID += " java " + found.Java
	print.Parts["java"] = found.Java
	return found.JavaHome, nil
}

// runFor is Run for one namespace; nil where Run is.
func (m *Machine) runFor(namespace string) func(ctx context.Context, argv ...string) (string, error) {
	if m.Run == nil {
		return nil
	}
	return func(ctx context.Context, argv ...string) (string, error) { return m.Run(ctx, namespace, argv...) }
}

// executorsOf is with how many executors a stage starts, and how many it has at most.
func executorsOf(spec *v1alpha1.SparkStage) (least, most int32) {
	e := spec.Executors
	switch {
	case e == nil:
		return 1, 1
	case e.Min == nil:
		return min(1, e.Max), e.Max
	}
	return *e.Min, e.Max
}

// sparkMembers are, of a stage whose members share no folder, the one that leads and
// those that follow.
func sparkMembers(spec *v1alpha1.SparkStage) (leader string, followers []string) {
	least, _ := executorsOf(spec)
	for index := range least {
		followers = append(followers, fmt.Sprintf("%s/%d", executorRole, index))
	}
	return driverRole + "/0", followers
}

// leavingGrace is how long an executor that is given back may take for the tasks that it
// has, in seconds. Who takes longer is lost, and all begin anew.
const leavingGrace = 120

// sparkElsewhere is the job of a Spark stage whose members share no folder: each keeps
// what it wrote until all are done. What one of them wrote goes with it, so all begin
// anew where one is lost. One that is given back in order brings it before it goes.
func (m *Machine) sparkElsewhere(run *v1alpha1.PipelineRun, stage *pipeline.Stage, w *resolved) *v1alpha1.TrainingJob {
	job := sparkJob(run, stage, w, m.seen(workerFile), m.seen(datumDir))
	backoff := *stage.Spec.Tries - 1
	job.Spec.Restart, job.Spec.BackoffLimit = v1alpha1.RestartScopeGang, &backoff
	for i := range job.Spec.Roles {
		role := &job.Spec.Roles[i]
		role.RestartPolicy = v1alpha1.RestartOnFailure
		role.Command = slices.Insert(role.Command, 3, "--apart", "--scratch", m.seen(v1alpha1.SparkPath))
		if m.Shared {
			into(role).ImagePullPolicy = corev1.PullIfNotPresent // what was looked up is what is run
		}
	}
	driver, executors := &job.Spec.Roles[0], &job.Spec.Roles[1]
	follows := []string{"--follows"}
	if executors.MinReplicas != nil {
		grace := int64(leavingGrace)
		executors.Template.Spec.TerminationGracePeriodSeconds = &grace
		follows = append(follows, "--leaves")
		for _, role := range []*v1alpha1.Role{driver, executors} {
			role.Command = slices.Insert(role.Command, 3, "--leaves")
		}
	}
	driver.Command[slices.Index(driver.Command, "--tries")+1] = "1" // of each attempt
	m.lend(job, workName(run, stage.Name), mountOf(stage), map[string][]string{driverRole: {"--leads"}, executorRole: follows})
	return job
}

// sparkInImages is the job of a Spark stage whose members see nothing of the machine but
// the folder of the datum, which they share, and Muster's program for images.
func (m *Machine) sparkInImages(run *v1alpha1.PipelineRun, stage *pipeline.Stage, w *resolved, datum string) (*v1alpha1.TrainingJob, error) {
	job := sparkJob(run, stage, w, path.Join(programDir, filepath.Base(m.Worker)), datumDir)
	for i := range job.Spec.Roles {
		role := &job.Spec.Roles[i]
		role.Command = slices.Insert(role.Command, 3, "--scratch", v1alpha1.SparkPath)
		show(role, "bin", programDir, true, hostFolder(filepath.Dir(m.Worker)))
		// What was looked up is what is run.
		into(role).ImagePullPolicy = corev1.PullIfNotPresent
	}
	driver := &job.Spec.Roles[0]
	driver.Command = slices.Insert(driver.Command, 3, "--own")
	// The driver notes beside the output what becomes of the script.
	return job, errors.Join(shared(job, datum, 0o777), appear(job, stage, datum, datumDir))
}

// sparkJob is the job of a Spark stage: the driver, whose end is the job's, and
// executors, of which there may be more and fewer while it runs.
func sparkJob(run *v1alpha1.PipelineRun, stage *pipeline.Stage, w *resolved, muster, datum string) *v1alpha1.TrainingJob {
	spec, one := stage.Spec.Spark, int32(1)
	least, most := executorsOf(spec)
	executors := asking(spec.Resources, executorRequests)
	driver := asking(spec.DriverResources, driverRequests)
	heap := strconv.FormatInt(spark.Heap(amount(executors, corev1.ResourceMemory).Value()>>20), 10)
	words := []string{muster, spark.Verb, spark.DriverVerb, "--datum", datum, "--python", program(stage).Python, "--script", spec.Script,
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
				Command: []string{muster, spark.Verb, spark.ExecutorVerb, "--datum", datum, "--python", program(stage).Python, "--heap", heap,
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
	return mounting("spark", v1alpha1.SparkPath)
}

// fell is why the job of a Spark stage failed whose members share no folder: as its
// driver has said of the script, else as the job does.
func fell(ctx context.Context, given *foreman.Work, job *v1alpha1.TrainingJob, problem string) (string, error) {
	says, err := given.Fell(ctx)
	if err != nil {
		return "", fmt.Errorf("looking for why job %s failed: %w", job.Name, err)
	}
	return cmp.Or(says, problem), nil
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
