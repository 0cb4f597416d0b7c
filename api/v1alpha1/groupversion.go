package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "muster.dev", Version: "v1alpha1"}

// AddToScheme registers this package's kinds, so that a typed client can
// encode and decode them.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&TrainingJob{}, &TrainingJobList{},
		&Gang{}, &GangList{},
		&Placement{}, &PlacementList{},
		&Queue{}, &QueueList{},
		&Dataset{}, &DatasetList{},
		&Pipeline{}, &PipelineList{},
		&PipelineRun{}, &PipelineRunList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
