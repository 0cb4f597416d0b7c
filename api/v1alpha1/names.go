package v1alpha1

import "strings"

// Labels and annotations that Muster sets or reads. All of them are part of
// the API: tools may rely on them.
const (
	// LabelJob names, on a Gang, a Placement, a pod, a Service or a claim, the
	// TrainingJob that it belongs to.
	LabelJob = "muster.dev/job"
	// LabelPipeline names, on a PipelineRun, a Dataset or a TrainingJob, the
	// Pipeline that it belongs to; LabelRun, on a TrainingJob, the PipelineRun.
	LabelPipeline = "muster.dev/pipeline"
	LabelRun      = "muster.dev/pipeline-run"
	// LabelStage names, on a TrainingJob, the stage that it computes.
	LabelStage = "muster.dev/pipeline-stage"
	// LabelGang names, on a Placement and a pod, the Gang that it belongs to.
	LabelGang = "muster.dev/gang"
	// LabelRole is the role of a member pod: "worker", "ps", ...
	LabelRole = "muster.dev/role"
	// LabelIndex is the index of a member pod within its role, from 0.
	LabelIndex = "muster.dev/index"
	// LabelAttempt is the attempt of the Gang that a pod or Placement is of,
	// from 1.
	LabelAttempt = "muster.dev/attempt"

	// AnnotationGPUs is, on a pod, the comma-separated UUIDs of the GPUs it
	// has been given. The scheduler writes it; the node obeys it. Absent and
	// empty mean no GPU.
	AnnotationGPUs = "muster.dev/gpus"
	// CountedGPU begins the made-up UUIDs of the GPUs of a node that only counts
	// them, counted-0 and so on: they say how many a pod has, not which; the
	// kubelet picks those.
	CountedGPU = "counted-"
	// AnnotationGPUShare is, on a pod that has a part of a GPU, how much: the
	// JSON encoding of [GPUShare]. The scheduler writes it beside
	// AnnotationGPUs, which then names one GPU. Absent: the GPUs are wholly the
	// pod's.
	AnnotationGPUShare = "muster.dev/gpu-share"
	// AnnotationClaimed is, on a member pod that gets its GPUs by a claim, "true"
	// once that is allocated.
	AnnotationClaimed = "muster.dev/claimed"
	// AnnotationGPUsAlone is, on a claim, "true" if its pod's containers can open no
	// GPUs but those of the claim. The agent then tells them numbers of GPUs.
	AnnotationGPUsAlone = "muster.dev/gpus-alone"
	// AnnotationGPUModels is, on a hand-written pod, a comma-separated list of
	// GPU models that it accepts, in order of preference.
	AnnotationGPUModels = "muster.dev/gpu-models"
	// AnnotationPort is, on a member pod, the TCP port that the member must
	// listen on for its peers.
	AnnotationPort = "muster.dev/port"
	// AnnotationEpoch is, on a member pod, the epoch of the Placement that it
	// was made from; on a Placement and on a pod that waits to be bound, the
	// epoch of the scheduler that adopted it last; on a bound one, that of the
	// scheduler that bound it.
	AnnotationEpoch = "muster.dev/epoch"
	// AnnotationNodeLabels is, on a Node, the keys of the labels that its
	// configuration put there, sorted and separated by commas.
	AnnotationNodeLabels = "muster.dev/node-labels"
	// AnnotationPlacement is, on a member pod, the Placement that it was made
	// from: "<name> <uid>". A node starts the pod only while that Placement
	// exists and is not being given back.
	AnnotationPlacement = "muster.dev/placement"
	// AnnotationInventory is, on a Node, the JSON encoding of
	// [NodeInventory].
	AnnotationInventory = "muster.dev/inventory"
	// AnnotationSubmitter is, on a TrainingJob and its Gang, who created it. On
	// embedded Muster the CLI says so: user@host, of which the part before the @
	// is the user. On a cluster it is the name by which the API server knows
	// them, whole; see AnnotationAuthenticated.
	AnnotationSubmitter = "muster.dev/submitter"
	// AnnotationAuthenticated, "true" beside AnnotationSubmitter, says that the
	// name is the one that the API server authenticated: policies of the
	// installation stamp both, or refuse any other name.
	AnnotationAuthenticated = "muster.dev/submitter-authenticated"
	// AnnotationQueue is, on a Namespace, the queue of the jobs in it that name
	// none.
	AnnotationQueue = "muster.dev/queue"
	// AnnotationEvict is, on a Gang, the scheduler's order to stop an attempt
	// so that another gang has room: "<attempt> <namespace>/<name>", of which
	// the latter says for whom; "<login>/job" if the owner of this gang may not see
	// the name of the other. The gang's controller obeys it once, while that
	// attempt holds a placement; the order of an earlier attempt, and what
	// cannot be read, mean nothing.
	AnnotationEvict = "muster.dev/evict"
	// AnnotationGiveBack is, on the Placement of a replica beyond an elastic
	// gang's minimum, for whom the scheduler ordered it back:
	// "<namespace>/<name>". The order itself is the Placement's deletion.
	AnnotationGiveBack = "muster.dev/give-back"
	// AnnotationAbandoned, on a Dataset of states, is the time in RFC 3339 at which Muster noticed
	// that its pipeline is gone. Muster removes it when the pipeline is created again, and removes the
	// Dataset when results of that time expire.
	AnnotationAbandoned = "muster.dev/abandoned"
	// AnnotationRecalled marks, on such a Placement, that the gang's controller
	// itself took it back: its node did not take the pod, or another Placement
	// names the same member.
	AnnotationRecalled = "muster.dev/recalled"
	// AnnotationExtension is, on a member pod that was added to an elastic gang,
	// the name of the Placement that added it.
	AnnotationExtension = "muster.dev/extension"
	// AnnotationCountsAs is, on a Secret or ConfigMap that variables of a stage come
	// from, the name by which its values count for results, in place of its version:
	// 1 to 128 printable characters, such as "token-2026". Whoever sets it says that all
	// objects of one kind and name that have it give the same results.
	AnnotationCountsAs = "muster.dev/counts-as"
	// AnnotationVersions is, on the TrainingJob of a stage with variables from Secrets
	// or ConfigMaps, the versions that these had when the stage was planned, as JSON:
	// KIND/NAME -> UID/VERSION, or "declared NAME". No value is in it.
	AnnotationVersions = "muster.dev/versions"
	// AnnotationRelease is, on a Gang, a person's order to give back what an
	// attempt holds without waiting for its members: "<attempt> <who>". Pods
	// are deleted without a grace period; their processes may still be there.
	AnnotationRelease = "muster.dev/release"
	// AnnotationPaused is, on the namespace [SystemNamespace], the mark that
	// nothing new is to be started anywhere: "<who> <when> <why>", when in
	// RFC 3339, why in any words or none. On a Queue that is stopped it says the
	// same of the queue; there spec.stopped alone has an effect.
	AnnotationPaused = "muster.dev/paused"

	// LabelGPUModel is, on a Node, the model of its GPUs when all are alike:
	// the label that NVIDIA's feature discovery sets, so that ordinary node
	// selectors work.
	LabelGPUModel = "nvidia.com/gpu.product"

	// LabelGPUMemory is, on a Node, the size of the memory of each of its GPUs,
	// in MiB; NVIDIA's feature discovery sets it, too.
	LabelGPUMemory = "nvidia.com/gpu.memory"
	// LabelModel and LabelMemory say the same on a Node where nothing discovers
	// it, or where people want another name: the model as jobs name it, and MiB.
	// They win.
	LabelModel  = "muster.dev/gpu-model"
	LabelMemory = "muster.dev/gpu-memory"

	// LabelUser names, on a namespace and the other objects of a tenant, the user who
	// owns them.
	LabelUser = "muster.dev/user"
	// LabelOwned is "true" on a Node of a cluster whose GPUs Muster alone gives
	// out. TaintOwned keeps pods of others off it; Muster takes that taint for
	// none.
	LabelOwned = "muster.dev/owned"
	TaintOwned = "muster.dev/owned"
	// LabelAgent is "true" on a Node beside whose kubelet Muster's agent is wanted:
	// as long as it is Muster's, or anything of Muster's has GPUs there.
	LabelAgent = "muster.dev/agent"
	// TaintDrain is, on a Node, a person's order that Muster's work leave it: what
	// has a member there is stopped, and started again elsewhere. Its value is
	// the notice that members have, as a Go duration; empty: as long as each says
	// itself. Its effect is NoSchedule.
	TaintDrain = "muster.dev/drain"
	// LabelGuarded is "true" on a pod of a gang of several members that nobody may
	// evict by itself: a PodDisruptionBudget of its namespace, [GuardBudget],
	// selects it. The label is taken off while the pod's node is cordoned or
	// about to go.
	LabelGuarded = "muster.dev/guarded"
	// GuardBudget is the name of that PodDisruptionBudget.
	GuardBudget = "muster-gangs"
	// LabelPlaceholder is, on a pod that only asks the cluster's autoscaler for a
	// node, the UID of the Gang for which it does. It never runs, and is no work.
	LabelPlaceholder = "muster.dev/placeholder"
	// LabelBuild is, on a pod that builds an environment, the first 63 digits of its
	// key. A tenant's network is open to packages for such pods.
	LabelBuild = "muster.dev/build"
	// AnnotationRefused is, on such a pod, why the store does not take what it made.
	AnnotationRefused = "muster.dev/refused"
	// AnnotationGPUResources is, on the namespace [SystemNamespace], the extended
	// resources that count GPUs on this cluster, separated by commas, so that
	// those who only look know them. Absent: [ResourceGPU].
	AnnotationGPUResources = "muster.dev/gpu-resources"
	// AnnotationDepartureSigns is, on the namespace [SystemNamespace], by what on a
	// node one can tell that it is about to go, as `muster serve --departure-sign`
	// takes it, separated by commas. Absent: the signs that are known.
	AnnotationDepartureSigns = "muster.dev/departure-signs"
	// AnnotationDataStore is, on the namespace [SystemNamespace], where versioned
	// data is kept, in words. Absent: nowhere.
	AnnotationDataStore = "muster.dev/data-store"

	// ResourceGPU is the extended resource by which pods ask for whole GPUs.
	ResourceGPU = "nvidia.com/gpu"
	// ResourceGPUMilli and ResourceGPUMemory are the extended resources by
	// which a container asks for a part of one GPU: thousandths of it, from 1 to
	// 999, and bytes of its memory. One container of a pod may, by either or
	// both, and not beside ResourceGPU.
	ResourceGPUMilli  = "muster.dev/gpu-milli"
	ResourceGPUMemory = "muster.dev/gpu-memory"

	// GPUClaim is the name, in a member pod's spec.resourceClaims, of the claim
	// by which it gets its GPUs where a driver gives them.
	GPUClaim = "muster-gpus"

	// NetrcKey is the key of a Secret with users and passwords for the indexes of
	// packages, in the format of ~/.netrc.
	NetrcKey = "netrc"

	// PodRoot is the folder below which Muster mounts what a member needs:
	// PodRoot/code, PodRoot/env, PodRoot/checkpoints, PodRoot/logs. A node
	// without mount namespaces relocates it: there the environment variable
	// MUSTER_ROOT holds the real folder, and mount paths and working
	// directories below PodRoot are read as relative to it.
	PodRoot = "/muster"
	// EnvJob is the environment variable that holds the name of a member's job.
	EnvJob = "MUSTER_JOB"
	// EnvRoot is the environment variable that holds the real path of
	// PodRoot in a container. It is always the first variable.
	EnvRoot = "MUSTER_ROOT"
	// EnvData begins the environment variables that hold where a member finds
	// the datasets that it reads.
	EnvData = "MUSTER_DATA_"
	// CheckpointsPath is where a member finds the folder that survives pods.
	// What is saved there is noticed by the node.
	CheckpointsPath = PodRoot + "/checkpoints"
	// ProgressPath is the file in which a member may say how far it is; its
	// folder is the pod's own and anybody in the pod may write there.
	ProgressPath = PodRoot + "/progress/report"
	// SparkPath is where members of a Spark stage keep what they need while they
	// run.
	SparkPath = PodRoot + "/spark"
	// EnvProgress is the environment variable that holds the real path of
	// ProgressPath in a container.
	EnvProgress = "MUSTER_PROGRESS"
	// ProgressVolume is the name, in a member's pod on a cluster, of the empty
	// folder at ProgressPath's place. Muster's agent looks into it on the node.
	ProgressVolume = "muster-progress"
	// AnnotationReports is "unread" on a member's pod where nobody looks into its
	// ProgressVolume, because the cluster has no agents of Muster.
	AnnotationReports = "muster.dev/reports"
	// ReportsUnread is the value of AnnotationReports.
	ReportsUnread = "unread"

	// CodeDriver is the ephemeral CSI driver name of a volume that holds a
	// writable copy of a code snapshot. Attribute "snapshot": the snapshot's
	// digest. Members of one job on one machine share one copy: attribute "job",
	// the UID of the job that owns the pod. On a cluster each pod has its own: attribute "copy", the
	// name of an emptyDir of the pod in which it lies, and which a container mounts;
	// without it the volume is read-only.
	CodeDriver = "code.muster.dev"
	// CodeCopyVolume is the name, in a member's pod on a cluster, of that emptyDir.
	CodeCopyVolume = "muster-code-copy"
	// EnvironmentDriver is the ephemeral CSI driver name of a volume that
	// holds a prepared Python environment, read-only. Attribute "key": the
	// environment's content key; or "path": a folder on the node. On a cluster
	// attribute "build", "true": the empty folder in which it is to be built.
	EnvironmentDriver = "environment.muster.dev"
	// DataDriver is the ephemeral CSI driver name of a volume that holds a part
	// of a commit, read-only. Attributes "commit": its name; "path": which part,
	// as in a TrainingJob; "key": the name of that content in a machine's cache;
	// "words": what people call it, for messages; "lazy", "true": it is not fetched but
	// mounted, and read as it is asked for. Or attribute "desk", "true": the folder of
	// the program that serves what is mounted so, on a cluster.
	DataDriver = "data.muster.dev"

	// StageDriver is the ephemeral CSI driver name of a volume by which workers of
	// a stage of a pipeline reach who gives out datums: a socket, and the program
	// that they run. Attribute "work": the name of what they compute.
	StageDriver = "stage.muster.dev"

	// ConditionPodUsage is the type of the pod condition by which a node
	// reports what a finished pod used; its message is JSON, [PodUsage].
	ConditionPodUsage = "muster.dev/Usage"
	// ConditionGPUShare is the type of the pod condition by which a node says
	// whether the pod's share of a GPU is enforced: True, or False and why not.
	// Its message is in words, beginning with the share.
	ConditionGPUShare = "muster.dev/GPUShareEnforced"
	// ConditionPodProgress is the type of the pod condition by which a node
	// says how far a pod is and when its work was last saved; its message is
	// JSON, [PodProgress]. It is False while what the pod reports cannot be
	// read.
	ConditionPodProgress = "muster.dev/Progress"

	// ConditionPodData is the type of the pod condition by which Muster says, of a pod
	// on a cluster, whether what it reads is on its node: True once its last volume of
	// data is mounted, since then; False with a [DataReason], and why in words.
	ConditionPodData = "muster.dev/Data"

	// GangFinalizer keeps a Gang, and each of its Placements, until nothing of
	// it is left. Whoever makes a Gang may set it, which saves a write; else
	// the Gang's controller does.
	GangFinalizer = "muster.dev/gang"

	// ReasonRefused is the reason of a pod that its node refused for a temporary cause: a port or a
	// GPU is in use. Nothing of it has run; it may be tried again, there or elsewhere. A member of a
	// gang has failed with it; the containers of any other pod wait with it, and the node looks again.
	ReasonRefused = "Refused"
	// ReasonUnclaimed is the reason of a failed pod whose claim of GPUs the API server refused, for
	// example because of a quota. Its attempt ends.
	ReasonUnclaimed = "Unclaimed"
	// ReasonUnsupported is the reason of a pod that its node refuses until the pod's spec or the
	// node's configuration changes: an image that is not mapped, a field that the node cannot honour.
	// Nothing of it has run; trying again is of no use. A member of a gang has failed with it; the
	// containers of any other pod wait with it.
	ReasonUnsupported = "Unsupported"

	// SystemNamespace is the namespace of what belongs to Muster itself.
	SystemNamespace = "muster-system"

	// SchedulerName is the scheduler that pods name to be bound by Muster.
	SchedulerName = "muster"

	// HostImage is the image name that means the programs of the machine that a
	// pod runs on, which only a Muster on one machine has. On a cluster another
	// image takes its place, or the job is refused.
	HostImage = "muster.dev/host"

	// DefaultPort is the port of a member that has an address of its own.
	DefaultPort = 2222
)

// Reserved reports whether a label or annotation is Muster's own: its key has the prefix
// muster.dev, or a subdomain of it. Users choose none of these for pods of Muster.
func Reserved(key string) bool {
	domain, _, prefixed := strings.Cut(key, "/")
	return prefixed && (domain == GroupVersion.Group || strings.HasSuffix(domain, "."+GroupVersion.Group))
}

// PodUsage is what one pod used over its life, as measured by the node.
type PodUsage struct {
	// CPUSeconds is user plus system time of the whole process tree.
	CPUSeconds float64 `json:"cpuSeconds"`
	// GPUSeconds is GPUs held x seconds held, from the first container's
	// start to the last one's end.
	GPUSeconds float64 `json:"gpuSeconds"`
	// MaxMemoryBytes is the largest resident set of one process.
	MaxMemoryBytes int64 `json:"maxMemoryBytes,omitempty"`
}

// NodeInventory is what a node tells the scheduler beyond its allocatable
// resources.
type NodeInventory struct {
	// HostPorts is set where pods share the node's network: members are then
	// given a port each, from this range.
	HostPorts *PortRange `json:"hostPorts,omitempty"`
	// GPUs lists the node's GPUs in the order of their indices.
	GPUs []GPUDevice `json:"gpus,omitempty"`
	// Quarantined lists processes that the node found running and cannot
	// match to a pod. Their GPUs stay held.
	Quarantined []string `json:"quarantined,omitempty"`
}

// PortRange is a range of TCP ports, both ends included.
type PortRange struct {
	First int32 `json:"first"`
	Last  int32 `json:"last"`
}

// GPUDevice is one GPU of a node.
type GPUDevice struct {
	// Index is the GPU's index as its driver counts.
	Index int `json:"index"`
	// UUID identifies the GPU machine-wide.
	UUID string `json:"uuid"`
	// Model is the short model name that users write: A100, H100, H200.
	Model string `json:"model"`
	// Product is the driver's full product name.
	Product string `json:"product,omitempty"`
	// MemoryMiB is the size of its memory.
	MemoryMiB int64 `json:"memoryMiB"`
	// Simulated is true for a GPU that was declared and does not exist.
	Simulated bool `json:"simulated,omitempty"`
	// Unhealthy says why the GPU must not be given out; empty if it may.
	Unhealthy string `json:"unhealthy,omitempty"`
	// Foreign lists processes that use the GPU and are not Muster's.
	Foreign []ForeignProcess `json:"foreign,omitempty"`
}

// ForeignProcess is a process on a GPU that Muster did not start.
type ForeignProcess struct {
	PID       int    `json:"pid"`
	User      string `json:"user,omitempty"`
	Command   string `json:"command,omitempty"`
	MemoryMiB int64  `json:"memoryMiB,omitempty"`
}
