package v1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Labels of a job's pods and services. Scripts and dashboards select by them.
const (
	// LabelJobName is the job's name.
	LabelJobName = "training.kubeflow.org/job-name"
	// LabelReplicaType is the replica type in lower case: worker, ps.
	LabelReplicaType = "training.kubeflow.org/replica-type"
	// LabelReplicaIndex is the index of the replica in its type, from 0.
	LabelReplicaIndex = "training.kubeflow.org/replica-index"
	// LabelOperatorName is who runs jobs of the kind: tfjob-controller.
	LabelOperatorName = "training.kubeflow.org/operator-name"
	// LabelJobRole is "master" on the one pod whose end is the job's.
	LabelJobRole = "training.kubeflow.org/job-role"
)

// Labels of a job by which it names its queue, the first before the second.
const (
	LabelQueue      = "muster.dev/queue"
	LabelKueueQueue = "kueue.x-k8s.io/queue-name"
)

// LabelDoor is, on the CustomResourceDefinition of a kind of this package,
// [DoorOpen] where Muster runs the kind's jobs that name no manager. Our own
// definitions carry it. On those of others it is for a person to set.
const (
	LabelDoor = "muster.dev/door"
	DoorOpen  = "open"
)

// Who manages a job, in runPolicy.managedBy.
const (
	// ManagedByTrainingOperator is what an absent managedBy means.
	ManagedByTrainingOperator = "kubeflow.org/training-operator"
	// ManagedByMuster gives a job to Muster whatever else runs there.
	ManagedByMuster = "muster.dev/kubeflow"
)

// ReplicaType is a part of a job: Chief, Master, Worker, PS, Evaluator.
type ReplicaType string

// The replica types. A PyTorchJob has Master and Worker alone.
const (
	ReplicaChief     ReplicaType = "Chief"
	ReplicaMaster    ReplicaType = "Master"
	ReplicaWorker    ReplicaType = "Worker"
	ReplicaPS        ReplicaType = "PS"
	ReplicaEvaluator ReplicaType = "Evaluator"
)

// RestartPolicy says when a replica that ended is started again.
//
// +kubebuilder:validation:Enum=Always;OnFailure;Never;ExitCode
type RestartPolicy string

// The restart policies.
const (
	RestartAlways    RestartPolicy = "Always"
	RestartOnFailure RestartPolicy = "OnFailure"
	RestartNever     RestartPolicy = "Never"
	// RestartExitCode restarts what ended with an exit code from 128 to 255; one
	// from 1 to 127 is permanent.
	RestartExitCode RestartPolicy = "ExitCode"
)

// ReplicaSpec is one replica type of a job.
//
// +kubebuilder:pruning:PreserveUnknownFields
type ReplicaSpec struct {
	// Replicas is how many pods there are. Default: 1.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`
	// Template is the pod of each replica.
	//
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	Template corev1.PodTemplateSpec `json:"template,omitempty"`
	// RestartPolicy stands above that of the template. Default: Never for a
	// TFJob, OnFailure for a PyTorchJob.
	//
	// +optional
	RestartPolicy RestartPolicy `json:"restartPolicy,omitempty"`
}

// CleanPodPolicy says what happens to pods once a job has ended.
//
// +kubebuilder:validation:Enum="";All;Running;None
type CleanPodPolicy string

// The policies.
const (
	CleanPodAll     CleanPodPolicy = "All"
	CleanPodRunning CleanPodPolicy = "Running"
	CleanPodNone    CleanPodPolicy = "None"
)

// RunPolicy is how a job of any kind is run.
//
// +kubebuilder:pruning:PreserveUnknownFields
type RunPolicy struct {
	// CleanPodPolicy says what happens to pods once the job has ended. Default:
	// Running: those that still run, such as parameter servers, are stopped.
	//
	// +optional
	CleanPodPolicy *CleanPodPolicy `json:"cleanPodPolicy,omitempty"`
	// TTLSecondsAfterFinished is how long an ended job is kept. Default: until
	// it is deleted.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
	// ActiveDeadlineSeconds is how long the job may run before it is stopped and
	// fails. Default: no limit.
	//
	// +kubebuilder:validation:Minimum=1
	// +optional
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`
	// BackoffLimit is how many failures are restarted before the job fails.
	// Default: 6.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	BackoffLimit *int32 `json:"backoffLimit,omitempty"`
	// SchedulingPolicy names queue and priority.
	//
	// +optional
	SchedulingPolicy *SchedulingPolicy `json:"schedulingPolicy,omitempty"`
	// Suspend stops the job and frees what it holds.
	//
	// +optional
	Suspend *bool `json:"suspend,omitempty"`
	// ManagedBy says whose job it is. A job of another controller than Muster
	// and the training operator is left alone.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ManagedBy *string `json:"managedBy,omitempty"`
}

// SchedulingPolicy is what a job says to its scheduler.
//
// +kubebuilder:pruning:PreserveUnknownFields
type SchedulingPolicy struct {
	// MinAvailable is how many pods must start together. All of them do.
	//
	// +optional
	MinAvailable *int32 `json:"minAvailable,omitempty"`
	// Queue is the queue that the job is charged to.
	//
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Queue string `json:"queue,omitempty"`
	// MinResources is what must be free before the job starts: what all of its
	// pods ask for.
	//
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +optional
	MinResources map[corev1.ResourceName]resource.Quantity `json:"minResources,omitempty"`
	// PriorityClass is the PriorityClass of every pod.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	PriorityClass string `json:"priorityClass,omitempty"`
	// ScheduleTimeoutSeconds is for how long a job may wait. A job waits for as
	// long as it takes.
	//
	// +optional
	ScheduleTimeoutSeconds *int32 `json:"scheduleTimeoutSeconds,omitempty"`
}

// ConditionType is a state that a job was in.
type ConditionType string

// The conditions.
const (
	JobCreated    ConditionType = "Created"
	JobRunning    ConditionType = "Running"
	JobRestarting ConditionType = "Restarting"
	JobSuspended  ConditionType = "Suspended"
	JobSucceeded  ConditionType = "Succeeded"
	JobFailed     ConditionType = "Failed"
)

// MessageClaimed begins the message of the condition Created of every job that Muster
// runs or has refused.
const MessageClaimed = "Muster runs this job as the TrainingJob of the same name."

// ReasonFailedValidation ends the reason of the condition Failed of a job that Muster
// refused. The reason begins with the kind.
const ReasonFailedValidation = "FailedValidation"

// Condition is one state. The last of a job's conditions is the newest.
type Condition struct {
	Type   ConditionType          `json:"type"`
	Status corev1.ConditionStatus `json:"status"`
	// Reason is the kind and a word: TFJobRunning.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// LastUpdateTime is when anything of the condition changed.
	LastUpdateTime metav1.Time `json:"lastUpdateTime,omitempty"`
	// LastTransitionTime is when status changed.
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
}

// ReplicaStatus counts the pods of one replica type.
type ReplicaStatus struct {
	// Active pods run.
	Active    int32 `json:"active,omitempty"`
	Succeeded int32 `json:"succeeded,omitempty"`
	Failed    int32 `json:"failed,omitempty"`
	// LabelSelector is not written; Selector is.
	//
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
	// Selector selects the pods of the type.
	Selector string `json:"selector,omitempty"`
}

// JobStatus is what is known of a job.
type JobStatus struct {
	// Conditions are the states that the job was in, the newest last.
	//
	// +listType=atomic
	// +optional
	Conditions []Condition `json:"conditions"`
	// ReplicaStatuses are counts by replica type.
	//
	// +optional
	ReplicaStatuses map[ReplicaType]*ReplicaStatus `json:"replicaStatuses"`
	// StartTime is when the first pod started.
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// CompletionTime is when the job succeeded or failed.
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// LastReconcileTime is when this status was last written.
	LastReconcileTime *metav1.Time `json:"lastReconcileTime,omitempty"`
}
