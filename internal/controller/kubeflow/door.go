package kubeflow

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	kubeflowv1 "github.com/muster-dev/muster/api/kubeflow/v1"
	"github.com/muster-dev/muster/api/v1alpha1"
)

// door is what is particular to a kind.
type door struct {
	kind string
	// resource is the kind's name in paths, and with the group that of its
	// definition.
	resource string
	// operator is the value of the label of that name.
	operator string
	// container, portName and port are what users of the kind rely on.
	container, portName string
	port                int32
	framework           v1alpha1.Framework
	// specs is the field with the replica types, of which types are known.
	specs string
	types []kubeflowv1.ReplicaType
	// restart is the restart policy of a replica type that names none.
	restart kubeflowv1.RestartPolicy
	// read decodes an object of the kind but for its replica types, strictly.
	read func(map[string]any) (*job, error)
}

// doors are the kinds.
var doors = []*door{tensorFlow(), pyTorch()}

func tensorFlow() *door {
	return &door{
		kind: kubeflowv1.KindTFJob, resource: "tfjobs", operator: "tfjob-controller",
		container: kubeflowv1.TFJobContainer, portName: kubeflowv1.TFJobPortName, port: kubeflowv1.TFJobPort,
		framework: v1alpha1.FrameworkTensorFlow, specs: "tfReplicaSpecs", restart: kubeflowv1.RestartNever,
		types: []kubeflowv1.ReplicaType{
			kubeflowv1.ReplicaChief, kubeflowv1.ReplicaMaster, kubeflowv1.ReplicaWorker, kubeflowv1.ReplicaPS, kubeflowv1.ReplicaEvaluator,
		},
		read: func(object map[string]any) (*job, error) {
			o := &kubeflowv1.TFJob{}
			err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object, o, true)
			return &job{policy: o.Spec.RunPolicy, success: o.Spec.SuccessPolicy, sparse: o.Spec.EnableDynamicWorker}, err
		},
	}
}

func pyTorch() *door {
	return &door{
		kind: kubeflowv1.KindPyTorchJob, resource: "pytorchjobs", operator: "pytorchjob-controller",
		container: kubeflowv1.PyTorchJobContainer, portName: kubeflowv1.PyTorchJobPortName, port: kubeflowv1.PyTorchJobPort,
		framework: v1alpha1.FrameworkPyTorch, specs: "pytorchReplicaSpecs", restart: kubeflowv1.RestartOnFailure,
		types: []kubeflowv1.ReplicaType{kubeflowv1.ReplicaMaster, kubeflowv1.ReplicaWorker},
		read: func(object map[string]any) (*job, error) {
			o := &kubeflowv1.PyTorchJob{}
			err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object, o, true)
			return &job{policy: o.Spec.RunPolicy, elastic: o.Spec.ElasticPolicy, processes: o.Spec.NprocPerNode}, err
		},
	}
}

func (d *door) gvk() schema.GroupVersionKind { return kubeflowv1.GroupVersion.WithKind(d.kind) }

// definition is the name of the kind's CustomResourceDefinition.
func (d *door) definition() string { return d.resource + "." + kubeflowv1.GroupVersion.Group }
