package member

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubeflowv1 "github.com/muster-dev/muster/api/kubeflow/v1"
)

// Foreign returns the TFJob or PyTorchJob of that name; nil where there is
// none, or the server does not have these kinds. It is where a job is looked
// for of which no training job was made.
func Foreign(ctx context.Context, reader client.Reader, namespace, name string) *unstructured.Unstructured {
	for _, kind := range []string{kubeflowv1.KindTFJob, kubeflowv1.KindPyTorchJob} {
		found := &unstructured.Unstructured{}
		found.SetGroupVersionKind(kubeflowv1.GroupVersion.WithKind(kind))
		if reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, found) == nil {
			return found
		}
	}
	return nil
}

// standing says in words how such a job is: its newest condition.
func standing(job *unstructured.Unstructured) string {
	conditions, _, err := unstructured.NestedSlice(job.Object, "status", "conditions")
	if err != nil || len(conditions) == 0 {
		return "nobody has looked at it yet, or it is not Muster's to run"
	}
	last, _ := conditions[len(conditions)-1].(map[string]any)
	state, _ := last["type"].(string)
	message, _ := last["message"].(string)
	return state + ": " + message
}
