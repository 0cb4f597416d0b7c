package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Gang is anything that wants resources together: roles x replicas. It is made
// by controllers and is the scheduler's only input.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Attempt",type=integer,JSONPath=`.status.attempt`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Gang struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   GangSpec   `json:"spec"`
	Status GangStatus `json:"status,omitempty"`
}

// GangList is a list of Gangs.
//
// +kubebuilder:object:root=true
type GangList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Gang `json:"items"`
}

// GangSpec is what is wanted together.
//
// +kubebuilder:validation:XValidation:rule="!has(self.topology) || !has(self.topology.required) || !self.topology.required || self.roles.all(r, !has(r.spread) || !has(r.spread.required) || !r.spread.required || r.replicas < 2 || (r.spread.over == 'node' && self.topology.within != 'node') || (r.spread.over == 'nvlink' && self.topology.within in ['zone', 'rack']) || (r.spread.over == 'rack' && self.topology.within == 'zone'))",message="topology asks for all members within one domain and spread for no two of a role in one: spread over a narrower level than topology.within (from wide to narrow: zone, rack, nvlink, node), or do not require both"
// +kubebuilder:validation:XValidation:rule="self.roles.all(r, !has(r.minReplicas) || r.minReplicas == r.replicas) || !has(self.rendezvous) || self.rendezvous == 'None'",message="roles: minReplicas below replicas needs rendezvous None: members of TensorFlow and PyTorch are told of one another when they start, and cannot come and go"
type GangSpec struct {
	// Roles are the gang's parts.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=name
	Roles []GangRole `json:"roles"`
	// Rendezvous is the framework whose variables members receive.
	//
	// +kubebuilder:default=None
	Rendezvous Framework `json:"rendezvous,omitempty"`
	// Restart says what is started again when a member fails. Where that is the
	// gang, it is given no members beyond minReplicas once it has begun anew.
	//
	// +kubebuilder:default=Member
	Restart RestartScope `json:"restart,omitempty"`
	// DoneWhen names what must succeed for the gang to succeed: roles with all
	// their members, or single members as role/index. What is left is then dealt
	// with as cleanUp says.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	DoneWhen []string `json:"doneWhen"`
	// CleanUp says what happens to the members once the outcome is decided.
	// Default: Running.
	//
	// +optional
	CleanUp CleanUp `json:"cleanUp,omitempty"`
	// SparseCluster makes TF_CONFIG name no more than a member has to know.
	//
	// +optional
	SparseCluster bool `json:"sparseCluster,omitempty"`
	// BackoffLimit is how many failures are restarted before the gang fails.
	BackoffLimit int32 `json:"backoffLimit,omitempty"`
	// Queue is the queue that the gang is charged to. Default: "default".
	Queue string `json:"queue,omitempty"`
	// ExpectedRunTime is how long the owner thinks that the gang runs, in all
	// its attempts. It orders the queue and holds nobody to anything.
	//
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}(h|m|s)){1,4}$') && duration(self) >= duration('1s')",message="give a duration of at least a second, such as 90m, 2h or 2h30m"
	// +optional
	ExpectedRunTime *metav1.Duration `json:"expectedRunTime,omitempty"`
	// TimeLimit is for how long the gang runs before its owner sets stop. Unset:
	// no limit. It is what is known of the run time; nothing is stopped by it.
	//
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}(h|m|s)){1,4}$') && duration(self) >= duration('1s')",message="give a duration of at least a second, such as 90m, 2h or 2h30m"
	// +optional
	TimeLimit *metav1.Duration `json:"timeLimit,omitempty"`
	// StartTimeout is how long a member may take from the creation of its pod
	// until its containers run, without the time that its init containers run.
	// After that the whole attempt is given back, with the node's words, and
	// planned again without that node for a while; three times in a row end the
	// gang. Where the node says that the image or the container's configuration
	// is at fault, three minutes are enough. Default: 10m, and of data that is
	// fetched to the node from the last time that it was further.
	//
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}(h|m|s)){1,4}$') && duration(self) >= duration('1s')",message="give a duration of at least a second, such as 90m, 2h or 2h30m"
	// +optional
	StartTimeout *metav1.Duration `json:"startTimeout,omitempty"`
	// Resumable says that the work goes on from its last checkpoint when it is
	// started again. Only such work may be evicted for the sake of shorter
	// work.
	//
	// +optional
	Resumable bool `json:"resumable,omitempty"`
	// Topology says where the members are to be together. Default: anywhere.
	//
	// +optional
	Topology *Topology `json:"topology,omitempty"`
	// Suspend stops the gang and frees what it holds.
	Suspend bool `json:"suspend,omitempty"`
	// Stop, when set, ends the gang as failed with this reason: a deadline
	// passed.
	Stop string `json:"stop,omitempty"`
}

// RestartScope is what is started again when a member fails.
//
// +kubebuilder:validation:Enum=Member;Gang
type RestartScope string

// The restart scopes.
const (
	// RestartScopeMember starts the failed member again where it was.
	RestartScopeMember RestartScope = "Member"
	// RestartScopeGang stops every member and plans the gang again.
	RestartScopeGang RestartScope = "Gang"
)

// GangRole is one part of a gang.
//
// +kubebuilder:validation:XValidation:rule="!has(self.gpuMemory) || !has(self.gpus) || (type(self.gpus) == string && isQuantity(self.gpus) && quantity(self.gpus).isGreaterThan(quantity('0')) && quantity(self.gpus).isLessThan(quantity('1')))",message="gpuMemory is memory of one GPU: leave gpus out, or give a share below one GPU, such as gpus: 250m"
// +kubebuilder:validation:XValidation:rule="!has(self.minReplicas) || self.minReplicas <= self.replicas",message="minReplicas must be from 1 to replicas: with how many members the role starts, of how many it has at most"
type GangRole struct {
	// Name is the role's name.
	Name string `json:"name"`
	// Replicas is the number of members.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Replicas int32 `json:"replicas"`
	// MinReplicas is with how many members the role starts, and the number that
	// it is entitled to, of those that are not done. Further ones, the lowest
	// indices first, are added while there is room that nobody waits for, and
	// given back first. Every index must succeed in the end. Unset: replicas.
	//
	// +kubebuilder:validation:Minimum=1
	// +optional
	MinReplicas *int32 `json:"minReplicas,omitempty"`
	// GPUs is the number of GPUs of each member, or a share below one GPU.
	//
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 1024 : (isQuantity(self) && !quantity(self).isLessThan(quantity('0')) && !quantity(self).isGreaterThan(quantity('1024')) && (quantity(self).isInteger() || self.matches('^([1-9][0-9]{0,2}m|0?[.][0-9]{1,3})$')))",message="gpus must be a whole number of GPUs for each member, such as 0, 1 or 2, at most 1024, or a share below one GPU, such as 250m or \"0.25\""
	GPUs *resource.Quantity `json:"gpus,omitempty"`
	// GPUMemory is how much memory of one GPU each member gets. Unset: whole
	// GPUs, or a share's part of the memory.
	//
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).isInteger() && !quantity(string(self)).isLessThan(quantity('1Mi')) && !quantity(string(self)).isGreaterThan(quantity('4Ti'))",message="gpuMemory must be an amount of memory of one GPU, from 1Mi to 4Ti, such as 8Gi"
	// +optional
	GPUMemory *resource.Quantity `json:"gpuMemory,omitempty"`
	// GPUModels are the models that will do, in order of preference.
	GPUModels []string `json:"gpuModels,omitempty"`
	// Spread says how the members are to be apart. Default: it is all the same.
	//
	// +optional
	Spread *Spread `json:"spread,omitempty"`
	// RestartPolicy says whether a failed member is started again.
	//
	// +kubebuilder:default=OnFailure
	RestartPolicy RestartPolicy `json:"restartPolicy,omitempty"`
	// PortName is the name of the port, among those of the template's first
	// container, on which members listen for their peers. Unset: none of them.
	//
	// +optional
	PortName string `json:"portName,omitempty"`
	// IndexLabels are keys of labels by which each member's pod carries its
	// index.
	//
	// +listType=set
	// +optional
	IndexLabels []string `json:"indexLabels,omitempty"`
	// FirstLabels are labels of the pod of the member with index 0 alone.
	//
	// +optional
	FirstLabels map[string]string `json:"firstLabels,omitempty"`
	// Template is the pod of each member.
	//
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	Template corev1.PodTemplateSpec `json:"template"`
}

// GangPhase is where in its life a gang is.
type GangPhase string

// The phases. Planned to Draining hold resources.
const (
	GangPending   GangPhase = "Pending"
	GangPlanned   GangPhase = "Planned"
	GangStarting  GangPhase = "Starting"
	GangRunning   GangPhase = "Running"
	GangDraining  GangPhase = "Draining"
	GangSuspended GangPhase = "Suspended"
	GangSucceeded GangPhase = "Succeeded"
	GangFailed    GangPhase = "Failed"
)

// GangStatus is what is known of the gang.
type GangStatus struct {
	// Phase is where in its life the gang is.
	Phase GangPhase `json:"phase,omitempty"`
	// Reason names the kind of message, for programs: one of the Reason constants of this package, or
	// the code of a reason of the scheduler, such as ShortOfGPUs. Empty if the message is empty.
	//
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message explains the phase of the gang.
	Message string `json:"message,omitempty"`
	// Attempt counts Placements, from 1. 0: never placed.
	Attempt int32 `json:"attempt,omitempty"`
	// Restarts counts failures that were restarted.
	Restarts int32 `json:"restarts,omitempty"`
	// Refusals counts the attempts in a row that nodes or the API server
	// refused for what may pass. It is 0 again once every member runs; too
	// many end the gang.
	//
	// +optional
	Refusals int32 `json:"refusals,omitempty"`
	// StartTimeouts counts the attempts in a row of which a member did not start
	// in time. It is 0 again once every member runs; three end the gang.
	//
	// +optional
	StartTimeouts int32 `json:"startTimeouts,omitempty"`
	// Avoided are the nodes that did not take or did not start a member a while
	// ago, and are not used for this gang for now.
	//
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=node
	// +optional
	Avoided []AvoidedNode `json:"avoided,omitempty"`
	// Evictions counts attempts that were stopped to make room for others.
	// They are no failures. What a node that goes takes along is no failure,
	// either, and is not counted here.
	//
	// +optional
	Evictions int32 `json:"evictions,omitempty"`
	// EvictedFor is what the last eviction made room for, as namespace/name.
	//
	// +optional
	EvictedFor string `json:"evictedFor,omitempty"`
	// EvictedFrom is why the last attempt was ended for the sake of a node that is
	// about to go, in words; empty where the last eviction made room for somebody.
	//
	// +kubebuilder:validation:MaxLength=512
	// +optional
	EvictedFrom string `json:"evictedFrom,omitempty"`
	// EvictedTime is when the gang was evicted. It is set until every member
	// runs again, or the gang is suspended.
	//
	// +optional
	EvictedTime *metav1.MicroTime `json:"evictedTime,omitempty"`
	// AwaySeconds is for how long the gang was kept from running by evictions,
	// from each to the moment when every member ran again. It begins at 0 again
	// when the gang is suspended.
	//
	// +optional
	AwaySeconds int64 `json:"awaySeconds,omitempty"`
	// AllStartedTime is when every member of the present attempt ran for the
	// first time. Unset: not yet, or nothing is placed.
	//
	// +optional
	AllStartedTime *metav1.MicroTime `json:"allStartedTime,omitempty"`
	// RanSeconds is for how long all members ran in earlier attempts: the sum
	// of the times from allStartedTime to the decision to end the attempt. Once
	// the outcome is decided it is the whole run time.
	//
	// +optional
	RanSeconds int64 `json:"ranSeconds,omitempty"`
	// SavedTime is when the work was last saved, in whichever attempt, by the
	// member that saved last. Unset where it is not known.
	//
	// +optional
	SavedTime *metav1.MicroTime `json:"savedTime,omitempty"`
	// Progress is how far the work is. Unset: no member has said so.
	//
	// +optional
	Progress *Progress `json:"progress,omitempty"`
	// Shrunk counts replicas beyond the minimum that were given back because
	// somebody was entitled to their room. They are no failures, and run again
	// later.
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
	// GivenBackUpTo is the number of the last planned of this attempt's further
	// replicas that were given back, as the names of their Placements end. Up to
	// it a Placement that nothing was made of is a request that came twice.
	//
	// +kubebuilder:validation:MaxLength=64
	// +optional
	GivenBackUpTo string `json:"givenBackUpTo,omitempty"`
	// GrowRefusals counts the further replicas in a row that a node or the API
	// server did not take. It is 0 again once one runs.
	//
	// +optional
	GrowRefusals int32 `json:"growRefusals,omitempty"`
	// GrowNotBefore is the earliest time at which another replica is added,
	// after one was not taken.
	//
	// +optional
	GrowNotBefore *metav1.Time `json:"growNotBefore,omitempty"`
	// NotBefore is the earliest time of the next attempt, after a failure.
	NotBefore *metav1.Time `json:"notBefore,omitempty"`
	// Outcome is set once the gang is to end, before its members are gone:
	// Succeeded or Failed. It never changes once set.
	Outcome GangPhase `json:"outcome,omitempty"`
	// Done lists the members that ended successfully and must not run again,
	// as role-index.
	//
	// +listType=set
	Done []string `json:"done,omitempty"`
	// Counted lists the UIDs of ended pods whose usage and failure are
	// already in the sums below, and as placement/UID those of the Placements
	// of replicas that were given back and are counted, so that nothing is
	// counted twice.
	//
	// +listType=set
	Counted []string `json:"counted,omitempty"`
	// Roles are counts by role.
	//
	// +listType=map
	// +listMapKey=name
	Roles []RoleStatus `json:"roles,omitempty"`
	// StartTime is when the first member started.
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// FinishTime is when the outcome was decided.
	FinishTime *metav1.Time `json:"finishTime,omitempty"`
	// LastWorkerTime is when the last member of the DoneWhen roles ended.
	LastWorkerTime *metav1.MicroTime `json:"lastWorkerTime,omitempty"`
	// DrainedTime is when the last member was gone.
	DrainedTime *metav1.MicroTime `json:"drainedTime,omitempty"`
	// DataSince is since when the present attempt holds its place and what it reads is
	// not on all of its nodes. Unset: it is, or nothing is read, or nothing is placed.
	//
	// +optional
	DataSince *metav1.MicroTime `json:"dataSince,omitempty"`
	// DataSeconds is for how long attempts held their place until the last volume of
	// data was mounted, and DataGPUSeconds that times the GPUs that they held
	// meanwhile. Members that came later, in place of others or beyond the minimum, do
	// not count. Nothing where data is there before anything is placed.
	//
	// +optional
	DataSeconds *resource.Quantity `json:"dataSeconds,omitempty"`
	// +optional
	DataGPUSeconds *resource.Quantity `json:"dataGPUSeconds,omitempty"`
	// GPUSince is since when the present attempt holds GPUs, GPUsHeld of them, while
	// its members have not all started: since it was placed, or since its end was
	// decided. Unset in between, and where no GPU is held.
	//
	// +optional
	GPUSince *metav1.MicroTime `json:"gpuSince,omitempty"`
	// +optional
	GPUsHeld *resource.Quantity `json:"gpusHeld,omitempty"`
	// GPUStartSeconds is GPUs x seconds that attempts held from being placed until
	// every member had started, GPUStartedSeconds the part of it in which the member
	// that held them had (gpuSeconds has that part, too), and GPUEndSeconds those from
	// the decision to end an attempt until its GPUs were given back. Members that came
	// later, in place of others or beyond the minimum, do not count.
	//
	// +optional
	GPUStartSeconds *resource.Quantity `json:"gpuStartSeconds,omitempty"`
	// +optional
	GPUStartedSeconds *resource.Quantity `json:"gpuStartedSeconds,omitempty"`
	// +optional
	GPUEndSeconds *resource.Quantity `json:"gpuEndSeconds,omitempty"`
	// GPUSeconds is GPUs x seconds held by ended members.
	GPUSeconds resource.Quantity `json:"gpuSeconds,omitempty"`
	// CPUSeconds is CPU time used by ended members.
	CPUSeconds resource.Quantity `json:"cpuSeconds,omitempty"`
}

// AvoidedNode is a node that cools off for one gang.
type AvoidedNode struct {
	// Node is its name.
	//
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node"`
	// Until is when it may be used again.
	Until metav1.Time `json:"until"`
	// Why is what the node said.
	//
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Why string `json:"why,omitempty"`
}
