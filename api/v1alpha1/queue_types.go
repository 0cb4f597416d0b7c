package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DefaultQueue is the queue of every job that names none. It need not be made:
// without an object of this name it is a child of the root that owns whatever
// no other queue is guaranteed.
const DefaultQueue = "default"

// Queue is a team's part of the cluster: what it is guaranteed, what it may
// use at most, and how it shares what is left with its siblings. Queues form a
// tree below a root that stands for the whole cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=mq
// +kubebuilder:printcolumn:name="Parent",type=string,JSONPath=`.spec.parent`
// +kubebuilder:printcolumn:name="Weight",type=integer,JSONPath=`.spec.weight`
// +kubebuilder:printcolumn:name="GPUs",type=string,JSONPath=`.spec.guaranteed.gpu`
// +kubebuilder:printcolumn:name="Used",type=string,JSONPath=`.status.used.gpu`
// +kubebuilder:printcolumn:name="Waiting",type=integer,JSONPath=`.status.waiting`
// +kubebuilder:printcolumn:name="Valid",type=string,JSONPath=`.status.conditions[?(@.type=="Valid")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name: at most 63 lower-case letters, digits and '-', because jobs name their queue by it",fieldPath=".metadata"
// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.parent) || self.spec.parent != self.metadata.name",message="spec.parent: a queue cannot be its own parent; leave it empty for a child of the root",fieldPath=".spec.parent"
type Queue struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec   QueueSpec   `json:"spec,omitempty"`
	Status QueueStatus `json:"status,omitempty"`
}

// QueueList is a list of Queues.
//
// +kubebuilder:object:root=true
type QueueList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Queue `json:"items"`
}

// ResourceAmounts are amounts by class of resource: cpu in cores, memory in
// bytes, gpu in GPUs of any model, and any other name is a GPU model such as
// A100, in GPUs. Parts of GPUs are written 500m or 0.5. A GPU of a model counts
// both as gpu and as its model.
//
// +kubebuilder:validation:MaxProperties=32
// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[A-Za-z0-9][-A-Za-z0-9_. ]{0,62}$'))",message="name a class: cpu, memory, gpu, or a GPU model such as A100"
// +kubebuilder:validation:XValidation:rule="self.all(k, type(self[k]) == int ? self[k] >= 0 : !self[k].startsWith('-'))",message="amounts must not be negative: give 0 or more, such as gpu: 8, cpu: 64, memory: 512Gi, A100: 500m"
type ResourceAmounts map[string]resource.Quantity

// BorrowingPolicy says whether a queue may use more than it is guaranteed.
//
// +kubebuilder:validation:Enum=Allowed;Never
type BorrowingPolicy string

// The borrowing policies.
const (
	// BorrowingAllowed lets the queue use what others leave idle, up to its
	// limit.
	BorrowingAllowed BorrowingPolicy = "Allowed"
	// BorrowingNever keeps the queue to its guarantee, in every class that the
	// guarantee names.
	BorrowingNever BorrowingPolicy = "Never"
)

// ReclaimPolicy says from which work of other queues a queue takes back what
// it is guaranteed.
//
// +kubebuilder:validation:Enum=Any;LowerPriority;Never
type ReclaimPolicy string

// The reclaim policies.
const (
	// ReclaimAny takes it back from any work that borrows.
	ReclaimAny ReclaimPolicy = "Any"
	// ReclaimLowerPriority takes it back only from borrowing work of lower
	// priority than the work that needs it.
	ReclaimLowerPriority ReclaimPolicy = "LowerPriority"
	// ReclaimNever waits until the borrowers are done.
	ReclaimNever ReclaimPolicy = "Never"
)

// QueueSpec is what a queue is promised and allowed.
//
// +kubebuilder:validation:XValidation:rule="!has(self.guaranteed) || !has(self.limit) || ['gpu', 'cpu', 'memory'].all(k, !(k in self.guaranteed) || !(k in self.limit) || !quantity(string(self.limit[k])).isLessThan(quantity(string(self.guaranteed[k]))))",message="limit: less than guaranteed; a queue must be allowed to use what it is guaranteed: raise the limit or lower the guarantee"
// +kubebuilder:validation:XValidation:rule="!has(self.borrowing) || self.borrowing != 'Never' || has(self.guaranteed)",message="borrowing: Never needs guaranteed: a queue that may not borrow is kept to its guarantee"
// +kubebuilder:validation:XValidation:rule="!has(self.lendingLimit) || has(self.guaranteed)",message="lendingLimit needs guaranteed: only what a queue is guaranteed can be lent"
type QueueSpec struct {
	// Parent is the queue above. Default: none, the queue is a child of the
	// root.
	//
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Parent string `json:"parent,omitempty"`

	// Guaranteed is what the queue can have whenever it wants, by class. While
	// it is idle, others may borrow it and give it back on demand. Children
	// together are guaranteed no more than their parent. Default: what the
	// children are guaranteed.
	//
	// +optional
	Guaranteed ResourceAmounts `json:"guaranteed,omitempty"`

	// Limit is the most that the queue may use with all queues below it, by
	// class. It is at least what is guaranteed. A class that is not named has
	// no limit.
	//
	// +optional
	Limit ResourceAmounts `json:"limit,omitempty"`

	// Weight is the queue's part, among its siblings, of what nobody is
	// guaranteed: a queue of weight 3 gets three times as much as one of weight
	// 1. A whole number from 1 to 1000.
	//
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	Weight *int32 `json:"weight,omitempty"`

	// Borrowing says whether the queue may use more than it is guaranteed.
	//
	// +kubebuilder:default=Allowed
	// +optional
	Borrowing BorrowingPolicy `json:"borrowing,omitempty"`

	// LendingLimit is the most of its guarantee that others may borrow while it
	// is idle, by class; the rest is kept free for it. Default: all of it.
	//
	// +optional
	LendingLimit ResourceAmounts `json:"lendingLimit,omitempty"`

	// Preemption says how the queue takes back what others borrowed, and what
	// protects its own work. Default: as the queue above.
	//
	// +optional
	Preemption *QueuePreemption `json:"preemption,omitempty"`

	// UserFairness orders the waiting work of different users by what each
	// holds and held lately in this queue, so that nobody who submits a
	// thousand jobs keeps the others waiting. False: by priority and age alone.
	//
	// +kubebuilder:default=true
	// +optional
	UserFairness *bool `json:"userFairness,omitempty"`

	// Stopped keeps anything new from starting in this queue and in all below
	// it. What runs goes on. Default: false.
	//
	// +optional
	Stopped bool `json:"stopped,omitempty"`
}

// QueuePreemption is about taking back what was borrowed.
type QueuePreemption struct {
	// Reclaim says from which work of other queues this queue takes back what
	// it is guaranteed. Default: as the queue above; at the root: Any.
	//
	// +optional
	Reclaim ReclaimPolicy `json:"reclaim,omitempty"`
	// MinRunSeconds is how long, in seconds, work of this queue runs at least
	// before it may be stopped for another queue. Default: as the queue above;
	// at the root the scheduler's own.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=31536000
	// +optional
	MinRunSeconds *int64 `json:"minRunSeconds,omitempty"`
}

// ConditionValid is the type of a queue's condition that is False while
// something in it cannot be honoured as written; its reason is one of the
// QueueReasons and its message names the field and what to do.
const ConditionValid = "Valid"

// The reasons of a queue's condition Valid.
const (
	// QueueReasonValid: everything is honoured.
	QueueReasonValid = "Valid"
	// QueueReasonMissingParent: spec.parent does not exist; the queue counts as
	// a child of the root.
	QueueReasonMissingParent = "MissingParent"
	// QueueReasonCycle: the queue is above itself; it counts as a child of the
	// root.
	QueueReasonCycle = "Cycle"
	// QueueReasonOverGuaranteed: the children are guaranteed more than the
	// queue; theirs are cut in proportion.
	QueueReasonOverGuaranteed = "OverGuaranteed"
	// QueueReasonLimitBelowGuaranteed: the limit counts for both.
	QueueReasonLimitBelowGuaranteed = "LimitBelowGuaranteed"
	// QueueReasonModelsAboveGPU: GPU models are guaranteed beyond gpu.
	QueueReasonModelsAboveGPU = "ModelsAboveGPU"
	// QueueReasonAmount: an amount is negative or too large.
	QueueReasonAmount = "Amount"
)

// QueueStatus is what is known of a queue. It is written now and then; `muster
// queue list` and `describe` look at the work itself.
type QueueStatus struct {
	// Used is what the queue and all below it hold, by class.
	//
	// +optional
	Used ResourceAmounts `json:"used,omitempty"`
	// Borrowed is what of that is beyond the guarantee, by class.
	//
	// +optional
	Borrowed ResourceAmounts `json:"borrowed,omitempty"`
	// Running is how many gangs hold something in the queue and below.
	//
	// +optional
	Running int32 `json:"running,omitempty"`
	// Waiting is how many gangs wait in the queue and below.
	//
	// +optional
	Waiting int32 `json:"waiting,omitempty"`
	// DecayedUsage is what the queue's own jobs held lately: a mean by class
	// that follows what is held with the scheduler's half-life. It is coarse,
	// and there so that a new scheduler does not begin without a memory.
	//
	// +optional
	DecayedUsage ResourceAmounts `json:"decayedUsage,omitempty"`
	// DecayedAt is the moment that DecayedUsage is of.
	//
	// +optional
	DecayedAt *metav1.Time `json:"decayedAt,omitempty"`
	// Conditions are Valid.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// ObservedGeneration is the generation of the spec that this status is of.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}
