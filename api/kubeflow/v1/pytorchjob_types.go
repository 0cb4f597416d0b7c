package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// What a PyTorchJob's main container and its port are called.
const (
	PyTorchJobContainer = "pytorch"
	PyTorchJobPortName  = "pytorchjob-port"
	PyTorchJobPort      = 23456
)

// PyTorchJob is distributed PyTorch, as Kubeflow defines it. Muster makes a
// TrainingJob of the same name from it and mirrors that one's status.
//
// +kubebuilder:object:root=true
// +kubebuilder:metadata:labels="muster.dev/door=open"
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.pytorchReplicaSpecs.Worker.replicas,statuspath=.status.replicaStatuses.Worker.active,selectorpath=.status.replicaStatuses.Worker.selector
// +kubebuilder:resource:path=pytorchjobs,singular=pytorchjob
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.conditions[-1:].type`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type PyTorchJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   PyTorchJobSpec `json:"spec,omitempty"`
	Status JobStatus      `json:"status,omitempty"`
}

// PyTorchJobList is a list of PyTorchJobs.
//
// +kubebuilder:object:root=true
type PyTorchJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PyTorchJob `json:"items"`
}

// PyTorchJobSpec is what a PyTorchJob asks for.
//
// +kubebuilder:validation:XValidation:rule="(has(self.runPolicy) && has(self.runPolicy.managedBy) ? self.runPolicy.managedBy : 'nobody') == (has(oldSelf.runPolicy) && has(oldSelf.runPolicy.managedBy) ? oldSelf.runPolicy.managedBy : 'nobody')",message="runPolicy.managedBy cannot be changed: two controllers would run the job; delete it and create it anew"
// +kubebuilder:pruning:PreserveUnknownFields
type PyTorchJobSpec struct {
	// +optional
	RunPolicy RunPolicy `json:"runPolicy,omitempty"`
	// ElasticPolicy is for torchrun.
	//
	// +optional
	ElasticPolicy *ElasticPolicy `json:"elasticPolicy,omitempty"`
	// PyTorchReplicaSpecs are the parts of the job: Master and Worker.
	//
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=8
	PyTorchReplicaSpecs map[ReplicaType]*ReplicaSpec `json:"pytorchReplicaSpecs"`
	// NprocPerNode is how many processes torchrun starts in each pod: auto, cpu,
	// gpu or a number. Default: one for each GPU, at least one.
	//
	// +kubebuilder:validation:Pattern=`^(auto|cpu|gpu|[1-9][0-9]{0,3})$`
	// +kubebuilder:validation:MaxLength=4
	// +optional
	NprocPerNode *string `json:"nprocPerNode,omitempty"`
}

// ElasticPolicy are torchrun's arguments.
//
// +kubebuilder:pruning:PreserveUnknownFields
type ElasticPolicy struct {
	// MinReplicas and MaxReplicas are what torchrun is told of how many pods
	// there may be.
	//
	// +kubebuilder:validation:Minimum=1
	// +optional
	MinReplicas *int32 `json:"minReplicas,omitempty"`
	// +kubebuilder:validation:Minimum=1
	// +optional
	MaxReplicas *int32 `json:"maxReplicas,omitempty"`
	// RDZVBackend is torchrun's --rdzv-backend. Default: c10d.
	//
	// +optional
	RDZVBackend *string `json:"rdzvBackend,omitempty"`
	// RDZVHost and RDZVPort are its --rdzv-endpoint. Default: worker 0, or the
	// master where there is one.
	//
	// +optional
	RDZVHost *string `json:"rdzvHost,omitempty"`
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	RDZVPort *int32 `json:"rdzvPort,omitempty"`
	// RDZVID is its --rdzv-id. Default: the job's name.
	//
	// +optional
	RDZVID *string `json:"rdzvId,omitempty"`
	// RDZVConf is its --rdzv-conf.
	//
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	RDZVConf []RDZVConf `json:"rdzvConf,omitempty"`
	// Standalone is its --standalone.
	//
	// +optional
	Standalone *bool `json:"standalone,omitempty"`
	// NProcPerNode is what spec.nprocPerNode was before.
	//
	// +kubebuilder:validation:Minimum=1
	// +optional
	NProcPerNode *int32 `json:"nProcPerNode,omitempty"`
	// MaxRestarts is its --max-restarts.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	MaxRestarts *int32 `json:"maxRestarts,omitempty"`
	// Metrics would scale the job by an autoscaler, which does not happen.
	//
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +optional
	Metrics []runtime.RawExtension `json:"metrics,omitempty"`
}

// RDZVConf is one key=value.
type RDZVConf struct {
	Key   string `json:"key,omitempty"`
	Value string `json:"value,omitempty"`
}
