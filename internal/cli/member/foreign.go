package member

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
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

// standing says in words how such a job is.
func standing(job *unstructured.Unstructured) string {
	if u, ours := UnmadeOf(job); ours {
		return u.Phase + ": " + u.Sentence()
	}
	return "no controller has seen it yet, or Muster does not run it"
}

// Unmade is a TFJob or PyTorchJob that is Muster's to run and has no TrainingJob.
type Unmade struct {
	Kind, Namespace, Name string
	Labels                map[string]string
	Created               time.Time
	// Phase is the newest condition's type if the job has failed, else Waiting.
	Phase string
	// Code is the reason of that condition.
	Code string
	// Reason is the message of that condition, without the part that is the same for all
	// jobs.
	Reason string
	// Refused reports whether Muster refuses the job as written.
	Refused bool
}

// UnmadeOf reads a TFJob or PyTorchJob that has no TrainingJob. It returns false for one
// that Muster does not run, or has not looked at yet.
func UnmadeOf(o *unstructured.Unstructured) (Unmade, bool) {
	var s kubeflowv1.JobStatus
	status, found, err := unstructured.NestedMap(o.Object, "status")
	if !found || err != nil || runtime.DefaultUnstructuredConverter.FromUnstructured(status, &s) != nil {
		return Unmade{}, false
	}
	claimed := slices.ContainsFunc(s.Conditions, func(c kubeflowv1.Condition) bool {
		return c.Type == kubeflowv1.JobCreated && strings.HasPrefix(c.Message, kubeflowv1.MessageClaimed)
	})
	if !claimed {
		return Unmade{}, false
	}
	last := s.Conditions[len(s.Conditions)-1]
	u := Unmade{
		Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName(), Labels: o.GetLabels(), Created: o.GetCreationTimestamp().Time,
		Phase: "Waiting", Code: last.Reason, Reason: strings.TrimSpace(strings.TrimPrefix(last.Message, kubeflowv1.MessageClaimed)),
	}
	if last.Type != kubeflowv1.JobCreated {
		u.Phase = string(last.Type)
	}
	u.Refused = last.Type == kubeflowv1.JobFailed && strings.HasSuffix(last.Reason, kubeflowv1.ReasonFailedValidation)
	if u.Reason == "" {
		u.Reason = "its TrainingJob is about to be made"
	}
	return u, true
}

// Reference is how a command line names the job: tfjob/mnist.
func (u Unmade) Reference() string { return strings.ToLower(u.Kind) + "/" + u.Name }

// Sentence is the reason, and what to do about it.
func (u Unmade) Sentence() string {
	if !u.Refused {
		return u.Reason
	}
	return fmt.Sprintf("%s. Correct that in the manifest, then `muster delete %s` and `muster apply` it again: the refusal of an object stands", strings.TrimSuffix(u.Reason, "."), u.Reference())
}
