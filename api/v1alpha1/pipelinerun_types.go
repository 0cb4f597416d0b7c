package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PipelineRun is what one change started: all stages, with one identity.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=mpr,categories=all
// +kubebuilder:selectablefield:JSONPath=`.status.phase`
// +kubebuilder:selectablefield:JSONPath=`.spec.pipeline`
// +kubebuilder:printcolumn:name="Pipeline",type=string,JSONPath=`.spec.pipeline`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Stages",type=string,JSONPath=`.status.done`
// +kubebuilder:printcolumn:name="Identity",type=string,JSONPath=`.spec.identity`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type PipelineRun struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec does not change but for cancel.
	Spec   PipelineRunSpec   `json:"spec"`
	Status PipelineRunStatus `json:"status,omitempty"`

	// Unreadable is the reason why Go's types cannot hold the stored spec. The spec is
	// empty then. The API server does not store this field. Default: the spec was read.
	Unreadable string `json:"-"`
}

// PipelineRunList is a list of PipelineRuns.
//
// +kubebuilder:object:root=true
type PipelineRunList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PipelineRun `json:"items"`
}

// PipelineRunSpec is what a run was started with.
type PipelineRunSpec struct {
	// Pipeline is the name of the pipeline.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Pipeline string `json:"pipeline"`
	// Number counts the runs of the pipeline: of two that began in one second, the
	// higher one is the later.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	Number int64 `json:"number,omitempty"`
	// Identity is common to all that one commit started, in this pipeline and in
	// those that read what it writes.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Identity string `json:"identity"`
	// Cause says in words what started it.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Cause string `json:"cause,omitempty"`
	// Inputs are the commits that are read.
	//
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	// +optional
	Inputs []RunInput `json:"inputs,omitempty"`
	// Stages are the stages as they were when the run began, with the pipeline's
	// code, environment and variables where they name none.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=name
	Stages []Stage `json:"stages"`
	// Queue is the queue that the stages are charged to. Default: "default".
	//
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Queue string `json:"queue,omitempty"`
	// Recompute are stages whose results are not taken again: what was asked for
	// by "muster pipeline rerun".
	//
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Recompute []string `json:"recompute,omitempty"`
	// DryRun only finds out what each stage would compute, and about what that
	// costs: nothing is computed or committed, and the run is removed ten minutes
	// after it has ended. Branches that inputs leaves out are read where they are.
	//
	// +optional
	DryRun bool `json:"dryRun,omitempty"`
	// Cancel ends the run. What was computed is kept as results.
	//
	// +optional
	Cancel bool `json:"cancel,omitempty"`
}

// RunInput is a branch and the commit at which it was read.
type RunInput struct {
	// Dataset is the dataset.
	//
	// +kubebuilder:validation:MaxLength=63
	Dataset string `json:"dataset"`
	// Branch is the branch.
	Branch DatasetRef `json:"branch"`
	// Commit is the commit; empty: the branch had none.
	//
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^([0-9a-f]{64})?$`
	// +optional
	Commit string `json:"commit,omitempty"`
}

// RunPhase is where in its life a run or a stage of it is.
type RunPhase string

// The phases, in order.
const (
	// RunWaiting: it waits for stages before it, or for room.
	RunWaiting RunPhase = "Waiting"
	// RunPlanning: it is being found out what has to be computed.
	RunPlanning RunPhase = "Planning"
	// RunRunning: datums are being computed.
	RunRunning RunPhase = "Running"
	// RunSucceeded: the output is committed.
	RunSucceeded RunPhase = "Succeeded"
	// RunFailed: status.message says why.
	RunFailed RunPhase = "Failed"
	// RunCancelled: somebody ended it.
	RunCancelled RunPhase = "Cancelled"
)

// PipelineRunStatus is what is known of a run.
type PipelineRunStatus struct {
	// Phase is where in its life the run is.
	//
	// +optional
	Phase RunPhase `json:"phase,omitempty"`
	// Message says in words why.
	//
	// +optional
	Message string `json:"message,omitempty"`
	// Done is "ended/all" stages.
	//
	// +optional
	Done string `json:"done,omitempty"`
	// StartTime is when the run began.
	//
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// FinishTime is when it ended.
	//
	// +optional
	FinishTime *metav1.Time `json:"finishTime,omitempty"`
	// Stages are the stages of the run.
	//
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Stages []StageStatus `json:"stages,omitempty"`
}

// StageStatus is what is known of a stage of a run.
type StageStatus struct {
	// Name is the stage's name.
	Name string `json:"name"`
	// Phase is where in its life it is.
	//
	// +optional
	Phase RunPhase `json:"phase,omitempty"`
	// Message says in words why.
	//
	// +optional
	Message string `json:"message,omitempty"`
	// Why says in words why it computes what it computes: which files, which code,
	// which packages or arguments differ from the last run.
	//
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	Why string `json:"why,omitempty"`
	// Datums counts its datums.
	//
	// +optional
	Datums DatumCounts `json:"datums,omitempty"`
	// Recipe is the digest of all that its results depend on beside files: code,
	// arguments, variables, environment.
	//
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Recipe string `json:"recipe,omitempty"`
	// Estimate is what a dry run found out.
	//
	// +optional
	Estimate *StageEstimate `json:"estimate,omitempty"`
	// Job names the TrainingJob that computes, once there is one.
	//
	// +optional
	Job string `json:"job,omitempty"`
	// Output is the commit that it made, or the one that is the same.
	//
	// +optional
	Output *RunInput `json:"output,omitempty"`
	// Egress is how far its output is copied elsewhere, where the stage says so.
	//
	// +optional
	Egress *EgressStatus `json:"egress,omitempty"`
	// StartTime is when planning began.
	//
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// FinishTime is when it ended.
	//
	// +optional
	FinishTime *metav1.Time `json:"finishTime,omitempty"`
	// GPUSeconds is GPUs held x seconds held. Of a stage that is on its way it
	// grows in steps of 10.
	//
	// +optional
	GPUSeconds *resource.Quantity `json:"gpuSeconds,omitempty"`
	// GPUIdleSeconds is the part of it in which no datum was being computed. Of
	// training and Spark it is the part in which not all members ran: until the last
	// had started, and from the decision to end an attempt until its GPUs were given
	// back, as far as that was known when the stage ended.
	//
	// +optional
	GPUIdleSeconds *resource.Quantity `json:"gpuIdleSeconds,omitempty"`
}

// EgressStatus is how far an output is copied elsewhere.
type EgressStatus struct {
	// To is the address.
	//
	// +kubebuilder:validation:MaxLength=1024
	To string `json:"to"`
	// Commit is the commit that is copied.
	//
	// +kubebuilder:validation:MaxLength=64
	Commit string `json:"commit"`
	// Phase is Running, Succeeded or Failed.
	//
	// +optional
	Phase RunPhase `json:"phase,omitempty"`
	// Message says in words why.
	//
	// +optional
	Message string `json:"message,omitempty"`
	// Files and Bytes were copied; what was there from the commit before was not.
	//
	// +optional
	Files int64 `json:"files,omitempty"`
	// +optional
	Bytes int64 `json:"bytes,omitempty"`
	// Tries is how often it was tried.
	//
	// +optional
	Tries int32 `json:"tries,omitempty"`
}

// StageEstimate is what a stage would compute, and about what that costs.
type StageEstimate struct {
	// Compute is how many datums it would compute.
	//
	// +optional
	Compute int64 `json:"compute,omitempty"`
	// AtMost says that what it is given is known only once stages before it have
	// run: it computes and costs so much at most, where these make as many files for
	// each datum as before.
	//
	// +optional
	AtMost bool `json:"atMost,omitempty"`
	// Unknown says that not even that can be told: stages before it have never run.
	//
	// +optional
	Unknown bool `json:"unknown,omitempty"`
	// Seconds is about how long that takes one worker. Unset: not known.
	//
	// +optional
	Seconds *resource.Quantity `json:"seconds,omitempty"`
	// GPUSeconds is about how many GPUs x seconds of it.
	//
	// +optional
	GPUSeconds *resource.Quantity `json:"gpuSeconds,omitempty"`
	// Samples is of how many results of before that is the mean.
	//
	// +optional
	Samples int32 `json:"samples,omitempty"`
}

// DatumCounts counts the datums of a stage by what became of them.
type DatumCounts struct {
	// Total is how many there are.
	//
	// +optional
	Total int64 `json:"total,omitempty"`
	// Reused is how many had a result already.
	//
	// +optional
	Reused int64 `json:"reused,omitempty"`
	// Computed is how many were computed in this run.
	//
	// +optional
	Computed int64 `json:"computed,omitempty"`
	// Failed is how many failed.
	//
	// +optional
	Failed int64 `json:"failed,omitempty"`
	// Waiting is how many are still to be computed.
	//
	// +optional
	Waiting int64 `json:"waiting,omitempty"`
}
