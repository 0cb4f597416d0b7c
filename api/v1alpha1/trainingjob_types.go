package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TrainingJob is distributed training: roles with replicas, code, environment,
// volumes and a success policy. All of its members start together or none
// does.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=tj;trainingjobs,categories=all
// +kubebuilder:selectablefield:JSONPath=`.status.phase`
// +kubebuilder:selectablefield:JSONPath=`.spec.queue`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="GPUs",type=integer,JSONPath=`.status.gpus`
// +kubebuilder:printcolumn:name="Done",type=string,JSONPath=`.status.progress.percent`
// +kubebuilder:printcolumn:name="Queue",type=string,JSONPath=`.spec.queue`,priority=1
// +kubebuilder:printcolumn:name="Saved",type=date,JSONPath=`.status.savedTime`,priority=1
// +kubebuilder:printcolumn:name="Evictions",type=integer,JSONPath=`.status.evictions`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.message`,priority=0
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 48",message="the name may have at most 48 characters, because member names are made from it",fieldPath=".metadata"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="the name must start with a letter and consist of lower-case letters, digits and '-', because it becomes a host name",fieldPath=".metadata"
type TrainingJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   TrainingJobSpec   `json:"spec"`
	Status TrainingJobStatus `json:"status,omitempty"`

	// Unreadable is the reason why Go's types cannot hold the stored spec. The spec is
	// empty then. The API server does not store this field. Default: the spec was read.
	Unreadable string `json:"-"`
}

// TrainingJobList is a list of TrainingJobs.
//
// +kubebuilder:object:root=true
type TrainingJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []TrainingJob `json:"items"`
}

// Framework decides which rendezvous variables members receive.
//
// +kubebuilder:validation:Enum=TensorFlow;PyTorch;None
type Framework string

// The frameworks.
const (
	// FrameworkTensorFlow injects TF_CONFIG, and the PS_HOSTS and
	// WORKER_HOSTS that classic scripts take as flags.
	FrameworkTensorFlow Framework = "TensorFlow"
	// FrameworkPyTorch injects MASTER_ADDR, MASTER_PORT, WORLD_SIZE, RANK and
	// torchrun's PET_* variables.
	FrameworkPyTorch Framework = "PyTorch"
	// FrameworkNone injects no framework variables, only ROLE and INDEX and
	// the host lists.
	FrameworkNone Framework = "None"
)

// TrainingJobSpec is what the user asks for.
//
// +kubebuilder:validation:XValidation:rule="self.framework != 'TensorFlow' || !self.roles.exists(r, r.name == 'ps') || self.roles.exists(r, r.name in ['worker', 'chief', 'master'])",message="roles: parameter servers (ps) without workers: add a role named worker (or chief)"
// +kubebuilder:validation:XValidation:rule="!self.roles.exists(r, r.name == 'chief' && has(r.replicas) && r.replicas != 1)",message="roles: chief must have exactly 1 replica"
// +kubebuilder:validation:XValidation:rule="!has(self.topology) || !has(self.topology.required) || !self.topology.required || self.roles.all(r, !has(r.spread) || !has(r.spread.required) || !r.spread.required || !has(r.replicas) || r.replicas < 2 || (r.spread.over == 'node' && self.topology.within != 'node') || (r.spread.over == 'nvlink' && self.topology.within in ['zone', 'rack']) || (r.spread.over == 'rack' && self.topology.within == 'zone'))",message="topology asks for all members within one domain and spread for no two of a role in one: spread over a narrower level than topology.within (from wide to narrow: zone, rack, nvlink, node), or do not require both"
// +kubebuilder:validation:XValidation:rule="self.roles.all(r, !has(r.minReplicas) || (has(r.replicas) ? r.replicas : 1) == r.minReplicas) || !has(self.framework) || self.framework == 'None'",message="roles: minReplicas below replicas (a job that grows and shrinks) needs framework None: members of TensorFlow and PyTorch are told of one another when they start, and cannot come and go"
type TrainingJobSpec struct {
	// Framework decides which rendezvous variables members receive.
	//
	// +kubebuilder:default=None
	Framework Framework `json:"framework,omitempty"`

	// Roles are the parts of the job; each becomes replicas pods.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=name
	Roles []Role `json:"roles"`

	// Code is made available to every member as its working directory.
	Code *Code `json:"code,omitempty"`

	// Environment is the Python environment of every member. Default: the
	// python3 of the machine.
	Environment *Environment `json:"environment,omitempty"`

	// Volumes are shared by all members.
	//
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=name
	Volumes []JobVolume `json:"volumes,omitempty"`

	// Data are versions of datasets that every member reads. They are brought to
	// the machine before the job asks for GPUs, once for all jobs that read the
	// same, and are read-only. Of each, members find the folder where mount says
	// and in the variable MUSTER_DATA_<DATASET>, in capital letters with _ for -;
	// the second one of a dataset in MUSTER_DATA_<DATASET>_2.
	//
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=mount
	// +optional
	Data []JobData `json:"data,omitempty"`

	// Checkpoints is the folder that survives restarts and pods; every member
	// finds it in the variable MUSTER_CHECKPOINT_DIR, and a folder for
	// TensorBoard events and the like beside it in MUSTER_LOG_DIR. Default: a
	// new claim of 10Gi.
	Checkpoints *Checkpoints `json:"checkpoints,omitempty"`

	// Env is added to every member's environment.
	//
	// +kubebuilder:validation:MaxItems=256
	Env []corev1.EnvVar `json:"env,omitempty"`

	// Queue is the queue that the job is charged to. Default: "default".
	//
	// +kubebuilder:validation:MaxLength=63
	Queue string `json:"queue,omitempty"`

	// PriorityClassName names the PriorityClass of every member: of two jobs
	// that wait in a queue, the one of the higher priority starts first.
	// Default: the cluster's default class, else 0.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// Topology says where the members are to be together: within one rack, for
	// example. Default: anywhere.
	//
	// +optional
	Topology *Topology `json:"topology,omitempty"`

	// ExpectedRunTime is how long you think that the job runs: 90m, 2h. It is
	// used to order what waits, and never stops the job; a guess that is wrong
	// by a factor of two costs little. Default: what is known of like jobs.
	//
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}(h|m|s)){1,4}$') && duration(self) >= duration('1s')",message="give a duration of at least a second, such as 90m, 2h or 2h30m"
	// +optional
	ExpectedRunTime *metav1.Duration `json:"expectedRunTime,omitempty"`

	// StartTimeout is how long a member may take until its containers run, once
	// it was given its place: pulling the image and mounting volumes, without the
	// time that init containers run. After that everything is given back, with
	// the node's words, and tried elsewhere; three times in a row fail the job.
	// Default: 10m; data that is fetched to a node then is waited for, from the last
	// time that it was further.
	//
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}(h|m|s)){1,4}$') && duration(self) >= duration('1s')",message="give a duration of at least a second, such as 90m, 2h or 2h30m"
	// +optional
	StartTimeout *metav1.Duration `json:"startTimeout,omitempty"`

	// Resumable says that the job goes on from its last checkpoint when it is
	// started again. Such a job may be stopped to make room for shorter work:
	// its members get SIGTERM and their grace period (30 seconds, or the
	// template's terminationGracePeriodSeconds) to save what they have in
	// MUSTER_CHECKPOINT_DIR, and it starts again when there is room.
	//
	// +optional
	Resumable bool `json:"resumable,omitempty"`

	// DoneWhen names what must succeed for the job to succeed: roles, or single
	// members as role/index: worker/0. Default: the chief where there is one,
	// else every role but ps and evaluator.
	//
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=48
	// +listType=set
	// +optional
	DoneWhen []string `json:"doneWhen,omitempty"`

	// CleanUp says what happens to the members once the job has succeeded or
	// failed. Default: Running.
	//
	// +optional
	CleanUp CleanUp `json:"cleanUp,omitempty"`

	// SparseCluster makes TF_CONFIG of a worker name the parameter servers and
	// itself alone, and that of a parameter server itself alone: for scripts
	// that connect to nobody else. Needs framework TensorFlow.
	//
	// +optional
	SparseCluster bool `json:"sparseCluster,omitempty"`

	// Suspend stops the job and frees everything it holds; set it back to
	// false to run again, from the last checkpoint if the script saves any.
	Suspend bool `json:"suspend,omitempty"`

	// Restart says what is started again when a member fails: that member, or the
	// gang, all members together. Default: the gang for PyTorch, whose collective
	// communication does not survive the loss of a rank, else the member.
	//
	// +optional
	Restart RestartScope `json:"restart,omitempty"`

	// BackoffLimit is how many times members may fail and be restarted before
	// the job fails. Counted over the whole job.
	//
	// +kubebuilder:default=6
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	BackoffLimit *int32 `json:"backoffLimit,omitempty"`

	// ActiveDeadlineSeconds is how long the job may run, from its first
	// member's start, before it is stopped and fails. Time for which it was
	// evicted does not count. Default: no limit.
	//
	// +kubebuilder:validation:Minimum=1
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`

	// TTLSecondsAfterFinished is how long a finished job is kept before it is
	// deleted with its logs. Default: until it is deleted by hand.
	//
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// RestartPolicy says when a member that ended is started again.
//
// +kubebuilder:validation:Enum=Never;OnFailure;ExitCode
type RestartPolicy string

// The restart policies.
const (
	// RestartNever fails the job when a member of the role fails.
	RestartNever RestartPolicy = "Never"
	// RestartOnFailure starts a member that failed again, with back-off, on
	// the same GPUs. For PyTorch the whole gang starts again, because
	// collective communication does not survive the loss of a rank.
	RestartOnFailure RestartPolicy = "OnFailure"
	// RestartExitCode is RestartOnFailure for a member that a signal ended or
	// that ended with an exit code from 128 on, and RestartNever for one that
	// ended with an exit code from 1 to 127.
	RestartExitCode RestartPolicy = "ExitCode"
)

// CleanUp is what happens to members once the outcome is decided.
//
// +kubebuilder:validation:Enum=Running;All;None
type CleanUp string

// The ways to clean up.
const (
	// CleanUpRunning stops members that still run, and keeps the pods of those
	// that ended, with their logs.
	CleanUpRunning CleanUp = "Running"
	// CleanUpAll removes every pod.
	CleanUpAll CleanUp = "All"
	// CleanUpNone lets members that run go on until they end by themselves;
	// they hold what they have until then.
	CleanUpNone CleanUp = "None"
)

// Role is one part of a job.
//
// +kubebuilder:validation:XValidation:rule="!has(self.script) || !has(self.command)",message="give command or script, not both"
// +kubebuilder:validation:XValidation:rule="!has(self.minReplicas) || self.minReplicas <= (has(self.replicas) ? self.replicas : 1)",message="minReplicas must be from 1 to replicas: with how many members the role starts, of how many it has at most"
// +kubebuilder:validation:XValidation:rule="has(self.script) || has(self.command) || has(self.template)",message="give a command (a list of words) or a script (a Python file in the code folder)"
// +kubebuilder:validation:XValidation:rule="!has(self.gpuMemory) || !has(self.gpus) || (type(self.gpus) == string && isQuantity(self.gpus) && quantity(self.gpus).isGreaterThan(quantity('0')) && quantity(self.gpus).isLessThan(quantity('1')))",message="gpuMemory is memory of one GPU: leave gpus out, or give a share below one GPU, such as gpus: 250m"
type Role struct {
	// Name is the role's name. The names chief, worker, ps and evaluator have
	// the meaning that TensorFlow gives them; any other name is allowed.
	//
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=32
	Name string `json:"name"`

	// Replicas is the number of members of this role.
	//
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Replicas *int32 `json:"replicas,omitempty"`

	// MinReplicas is with how many members the role starts: all of these
	// together, or none. Further ones, the lowest indices first, are added one
	// by one while there is room that nobody waits for, and are given back first
	// when somebody is entitled to it: such a member gets SIGTERM and its grace
	// period (30 seconds, or the template's terminationGracePeriodSeconds) and
	// runs again later. Every index must succeed in the end; one that finds
	// nothing left to do exits with 0. Needs framework None. Default: replicas.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	MinReplicas *int32 `json:"minReplicas,omitempty"`

	// Command is the program and its arguments. $(VAR) is expanded.
	//
	// +kubebuilder:validation:MaxItems=256
	Command []string `json:"command,omitempty"`

	// Script is a Python file, relative to the code folder, run with the
	// environment's python.
	//
	// +kubebuilder:validation:MaxLength=1024
	Script string `json:"script,omitempty"`

	// Args are the arguments of command or script. $(VAR) is expanded.
	//
	// +kubebuilder:validation:MaxItems=256
	Args []string `json:"args,omitempty"`

	// GPUs is the number of GPUs of each member, or a share of one: 250m and
	// "0.25" are a quarter of a GPU, with a quarter of its memory unless
	// gpuMemory says otherwise. Default: 0.
	//
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 1024 : (isQuantity(self) && !quantity(self).isLessThan(quantity('0')) && !quantity(self).isGreaterThan(quantity('1024')) && (quantity(self).isInteger() || self.matches('^([1-9][0-9]{0,2}m|0?[.][0-9]{1,3})$')))",message="gpus must be a whole number of GPUs for each member, such as 0, 1 or 2, at most 1024, or a share below one GPU, such as 250m or \"0.25\""
	GPUs *resource.Quantity `json:"gpus,omitempty"`

	// GPUMemory is how much memory of one GPU each member gets: 8Gi. The same
	// part of the GPU itself goes with it unless gpus is a share of its own.
	// Unset: whole GPUs, or a share's part of the memory.
	//
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).isInteger() && !quantity(string(self)).isLessThan(quantity('1Mi')) && !quantity(string(self)).isGreaterThan(quantity('4Ti'))",message="gpuMemory must be an amount of memory of one GPU, from 1Mi to 4Ti, such as 8Gi"
	// +optional
	GPUMemory *resource.Quantity `json:"gpuMemory,omitempty"`

	// GPUModels are the GPU models that will do, in order of preference: A100,
	// H100. Default: any.
	//
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=64
	GPUModels []string `json:"gpuModels,omitempty"`

	// Spread says how the members of this role are to be apart from each
	// other. Default: it is all the same.
	//
	// +optional
	Spread *Spread `json:"spread,omitempty"`

	// Resources are CPU and memory of each member; requests default to 100m
	// CPU and 128Mi.
	Resources corev1.ResourceRequirements `json:"resources,omitempty"`

	// RestartPolicy says when a member that ended is started again.
	//
	// +kubebuilder:default=OnFailure
	RestartPolicy RestartPolicy `json:"restartPolicy,omitempty"`

	// Env is added to the members' environment, after the job's.
	//
	// +kubebuilder:validation:MaxItems=256
	Env []corev1.EnvVar `json:"env,omitempty"`

	// PortName is the name of the port, among those of the template's first
	// container, on which members listen for their peers. Where members share
	// their node's network each gets another number for it. Default: a port
	// without a name, 2222 where members have addresses of their own.
	//
	// +kubebuilder:validation:MaxLength=15
	// +optional
	PortName string `json:"portName,omitempty"`

	// IndexLabels are keys of labels by which each member's pod carries its
	// index. Keys of muster.dev are Muster's.
	//
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",message="each is the key of a label, such as rank or example.com/rank"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, k.matches('^([^/]*[.])?muster[.]dev/'))",message="Muster itself sets the labels of muster.dev; choose a key of your own, such as example.com/rank"
	// +listType=set
	// +optional
	IndexLabels []string `json:"indexLabels,omitempty"`

	// FirstLabels are labels of the pod of the member with index 0 alone. Keys of
	// muster.dev are Muster's.
	//
	// +kubebuilder:validation:MaxProperties=8
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, k.matches('^([^/]*[.])?muster[.]dev/'))",message="Muster itself sets the labels of muster.dev; choose a key of your own, such as example.com/part"
	// +optional
	FirstLabels map[string]string `json:"firstLabels,omitempty"`

	// Template is anything else that a pod may carry: the fields above are
	// laid over it. Its first container is the member's.
	//
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	Template *corev1.PodTemplateSpec `json:"template,omitempty"`
}

// JobPhase is where in its life a job is.
type JobPhase string

// The phases, in order.
const (
	// JobPreparing: code or data is being fetched or the environment built. No
	// GPU is held.
	JobPreparing JobPhase = "Preparing"
	// JobWaiting: the gang does not fit yet; status.message says why.
	JobWaiting JobPhase = "Waiting"
	// JobStarting: placed; pods are being started.
	JobStarting JobPhase = "Starting"
	// JobRunning: every member has started.
	JobRunning JobPhase = "Running"
	// JobSuspended: stopped by spec.suspend; nothing is held.
	JobSuspended JobPhase = "Suspended"
	// JobSucceeded: the success policy held.
	JobSucceeded JobPhase = "Succeeded"
	// JobFailed: status.message says why.
	JobFailed JobPhase = "Failed"
)

// Conditions of a TrainingJob.
const (
	// ConditionPrepared is true once code, environment and data are ready.
	ConditionPrepared = "Prepared"
	// ConditionScheduled is true while a Placement holds the gang's resources.
	ConditionScheduled = "Scheduled"
	// ConditionEvicted is true from when the job was stopped to make room for
	// another until all its members run again; its message says for whom. It is
	// absent from a job that never was.
	ConditionEvicted = "Evicted"
	// ConditionFinished is true once the job succeeded or failed; its reason
	// says which.
	ConditionFinished = "Finished"
)

// TrainingJobStatus is what is known of the job.
type TrainingJobStatus struct {
	// Phase is where in its life the job is.
	Phase JobPhase `json:"phase,omitempty"`
	// Reason names the kind of message, for programs: that of the gang's status, or Stalled where the
	// job itself cannot go on. Empty if the phase needs no explanation.
	//
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message says in words why the job is in this phase.
	Message string `json:"message,omitempty"`
	// Ready is "running/wanted" members; "3 of 1..8" where a role is elastic.
	Ready string `json:"ready,omitempty"`
	// GPUs is how many GPUs the whole gang asks for; shares add up to whole
	// ones, rounded up. Where a role is elastic, all of its replicas count.
	GPUs int64 `json:"gpus,omitempty"`
	// Roles are counts by role.
	//
	// +listType=map
	// +listMapKey=name
	Roles []RoleStatus `json:"roles,omitempty"`
	// StartTime is when the first member started.
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// FinishTime is when the job succeeded or failed.
	FinishTime *metav1.Time `json:"finishTime,omitempty"`
	// DrainedTime is when the last process of the job was gone.
	DrainedTime *metav1.MicroTime `json:"drainedTime,omitempty"`
	// LastWorkerTime is when the last member that the success policy waits
	// for ended.
	LastWorkerTime *metav1.MicroTime `json:"lastWorkerTime,omitempty"`
	// Restarts counts members that failed and were started again.
	Restarts int32 `json:"restarts,omitempty"`
	// Evictions counts how often the job was stopped to make room for others.
	//
	// +optional
	Evictions int32 `json:"evictions,omitempty"`
	// EvictedFor is what the last eviction made room for, as namespace/name.
	//
	// +optional
	EvictedFor string `json:"evictedFor,omitempty"`
	// SavedTime is when the work was last saved in the checkpoint folder.
	// Unset where it is not known.
	//
	// +optional
	SavedTime *metav1.MicroTime `json:"savedTime,omitempty"`
	// Progress is how far the work is, as its members report it in the file
	// that MUSTER_PROGRESS names. Unset: none has said so.
	//
	// +optional
	Progress *Progress `json:"progress,omitempty"`
	// Shrunk counts members of elastic roles that were given back because
	// somebody was entitled to their room; they run again later.
	//
	// +optional
	Shrunk int32 `json:"shrunk,omitempty"`
	// GivenBack names the last of them, the latest last, and for whom:
	// "worker-3 for nlp/bert". At most 16.
	//
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	GivenBack []string `json:"givenBack,omitempty"`
	// GPUSeconds is GPUs held x seconds held so far, of ended members.
	GPUSeconds resource.Quantity `json:"gpuSeconds,omitempty"`
	// CPUSeconds is CPU time used by ended members.
	CPUSeconds resource.Quantity `json:"cpuSeconds,omitempty"`
	// DataSeconds is for how long the job held its place on nodes until the last volume
	// of what it reads was mounted there, and DataGPUSeconds that times the GPUs that it
	// held meanwhile, of all attempts. Unset where data is there before a job asks for
	// GPUs.
	//
	// +optional
	DataSeconds *resource.Quantity `json:"dataSeconds,omitempty"`
	// +optional
	DataGPUSeconds *resource.Quantity `json:"dataGPUSeconds,omitempty"`
	// GPUStartSeconds is GPUs x seconds that the job held from getting its place until
	// every member had started, what was held for data among it; GPUStartedSeconds is the
	// part of it in which the member that held them had started, which gpuSeconds has,
	// too; and GPUEndSeconds those from the decision to end it, or an attempt of it, until
	// its GPUs were given back. Nothing was trained with them meanwhile.
	//
	// +optional
	GPUStartSeconds *resource.Quantity `json:"gpuStartSeconds,omitempty"`
	// +optional
	GPUStartedSeconds *resource.Quantity `json:"gpuStartedSeconds,omitempty"`
	// +optional
	GPUEndSeconds *resource.Quantity `json:"gpuEndSeconds,omitempty"`
	// CodeSnapshot is the digest of the code that runs.
	CodeSnapshot string `json:"codeSnapshot,omitempty"`
	// EnvironmentKey is the content key of the environment that runs.
	EnvironmentKey string `json:"environmentKey,omitempty"`
	// Data is which commits the job reads, by the mounts of the spec.
	//
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=mount
	// +optional
	Data []JobDataStatus `json:"data,omitempty"`
	// Conditions are Prepared, Scheduled, Evicted and Finished, and others.
	//
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// ObservedGeneration is the generation of the spec that this status is of.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// RoleStatus counts the members of one role.
type RoleStatus struct {
	Name      string `json:"name"`
	Wanted    int32  `json:"wanted"`
	Pending   int32  `json:"pending"`
	Running   int32  `json:"running"`
	Succeeded int32  `json:"succeeded"`
	Failed    int32  `json:"failed"`
	// GPUShare says, for a role whose members have a share of a GPU, how much
	// that is and whether it is enforced where they run: "250m (20480 MiB), not
	// enforced: no MPS daemon runs". Empty until a node has said.
	//
	// +optional
	GPUShare string `json:"gpuShare,omitempty"`
	// Min is with how many members an elastic role starts; wanted is then the
	// most that it may have. 0: the role is not elastic.
	//
	// +optional
	Min int32 `json:"min,omitempty"`
	// Shrunk counts members of an elastic role that were given back because
	// somebody was entitled to their room.
	//
	// +optional
	Shrunk int32 `json:"shrunk,omitempty"`
}
