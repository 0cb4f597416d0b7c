package kubeflow

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// Planned returns the TrainingJob that a TFJob or PyTorchJob would become, for a caller
// that only plans it, and the fields that would have no effect. The TrainingJob has no
// owner. The error names all fields that keep the job from running. An object of another
// kind is no job: nil.
func Planned(object *unstructured.Unstructured) (training *v1alpha1.TrainingJob, notes []string, err error) {
	for _, d := range doors {
		if object.GroupVersionKind().GroupKind() != d.gvk().GroupKind() {
			continue
		}
		j := newJob(d, object)
		if err := j.refusal(); err != nil {
			return nil, nil, fmt.Errorf("%s %s would be refused: %w", d.kind, object.GetName(), err)
		}
		training = j.trainingJob()
		training.OwnerReferences = nil
		return training, j.notes, nil
	}
	return nil, nil, nil
}
