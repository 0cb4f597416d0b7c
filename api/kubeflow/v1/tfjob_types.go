package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// What a TFJob's main container and its port are called.
const (
	TFJobContainer = "tensorflow"
	TFJobPortName  = "tfjob-port"
	TFJobPort      = 2222
)

// TFJob is distributed TensorFlow, as Kubeflow defines it. Muster makes a
// TrainingJob of the same name from it and mirrors that one's status.
//
// +kubebuilder:object:root=true
// +kubebuilder:metadata:labels="muster.dev/door=open"
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.tfReplicaSpecs.Worker.replicas,statuspath=.status.replicaStatuses.Worker.active,selectorpath=.status.replicaStatuses.Worker.selector
// +kubebuilder:resource:path=tfjobs,singular=tfjob
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.conditions[-1:].type`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type TFJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   TFJobSpec `json:"spec,omitempty"`
	Status JobStatus `json:"status,omitempty"`
}

// TFJobList is a list of TFJobs.
//
// +kubebuilder:object:root=true
type TFJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []TFJob `json:"items"`
}

// SuccessPolicy says when a TFJob without a chief has succeeded.
//
// +kubebuilder:validation:Enum="";AllWorkers
type SuccessPolicy string

// The success policies.
const (
	// SuccessDefault is the success of worker 0.
	SuccessDefault SuccessPolicy = ""
	// SuccessAllWorkers is that of every worker.
	SuccessAllWorkers SuccessPolicy = "AllWorkers"
)

// TFJobSpec is what a TFJob asks for.
//
// +kubebuilder:validation:XValidation:rule="(has(self.runPolicy) && has(self.runPolicy.managedBy) ? self.runPolicy.managedBy : 'nobody') == (has(oldSelf.runPolicy) && has(oldSelf.runPolicy.managedBy) ? oldSelf.runPolicy.managedBy : 'nobody')",message="runPolicy.managedBy cannot be changed: two controllers would run the job; delete it and create it anew"
// +kubebuilder:pruning:PreserveUnknownFields
type TFJobSpec struct {
	// +optional
	RunPolicy RunPolicy `json:"runPolicy,omitempty"`
	// SuccessPolicy says when the job has succeeded. Default: with its chief, or
	// where it has none with worker 0.
	//
	// +optional
	SuccessPolicy *SuccessPolicy `json:"successPolicy,omitempty"`
	// TFReplicaSpecs are the parts of the job: Chief, Master, Worker, PS,
	// Evaluator.
	//
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=8
	TFReplicaSpecs map[ReplicaType]*ReplicaSpec `json:"tfReplicaSpecs"`
	// EnableDynamicWorker makes TF_CONFIG name no more than a replica has to
	// know.
	//
	// +optional
	EnableDynamicWorker bool `json:"enableDynamicWorker,omitempty"`
}
