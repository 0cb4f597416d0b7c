package describe

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubeflowv1 "github.com/muster-dev/muster/api/kubeflow/v1"
	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/device"
	"github.com/muster-dev/muster/internal/cli/member"
	"github.com/muster-dev/muster/internal/snapshot"
)

// page is everything that a training job's page tells.
type page struct {
	job    *v1alpha1.TrainingJob
	pods   []corev1.Pod
	events []corev1.Event
	// gpus are the GPUs of the nodes, by UUID.
	gpus map[string]v1alpha1.GPUDevice
	now  time.Time
	// ends is when the job is expected to end, in words; "" where nobody knows.
	ends string
	// without are the fields of the TFJob or PyTorchJob that have no effect, and those
	// that are not heeded.
	without string
}

// observe reads what the page of a job needs.
func observe(ctx context.Context, reader client.Reader, namespace, name string) (*page, error) {
	job, err := member.Job(ctx, reader, namespace, name)
	if err != nil {
		return nil, err
	}
	p := &page{job: job, gpus: map[string]v1alpha1.GPUDevice{}, now: time.Now()}
	if p.pods, err = member.Pods(ctx, reader, namespace, name); err != nil {
		return nil, err
	}
	// Who may not see the nodes of a cluster sees their job all the same, with
	// GPUs by their names alone.
	nodes, err := snapshot.Nodes(ctx, reader)
	if err != nil && !apierrors.IsForbidden(err) {
		return nil, err
	}
	for i := range nodes {
		inventory, _ := device.Inventory(&nodes[i])
		for _, gpu := range inventory.GPUs {
			p.gpus[gpu.UUID] = gpu
		}
	}
	if by := metav1.GetControllerOf(job); by != nil && strings.HasPrefix(by.APIVersion, kubeflowv1.GroupVersion.Group+"/") {
		p.without = without(member.Foreign(ctx, reader, namespace, name))
	}
	p.events, err = events(ctx, reader, p)
	return p, err
}

// without is the end of the message of a job's condition Created: "Without effect: ..."
// and "Not heeded: ..."; "" where it has neither.
func without(job *unstructured.Unstructured) string {
	if job == nil {
		return ""
	}
	conditions, _, _ := unstructured.NestedSlice(job.Object, "status", "conditions")
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		message, _ := condition["message"].(string)
		if condition["type"] != string(kubeflowv1.JobCreated) {
			continue
		}
		if _, fields, found := strings.Cut(message, "Without effect: "); found {
			return strings.TrimSuffix(fields, ".")
		}
		if _, fields, found := strings.Cut(message, "Not heeded: "); found {
			return "not heeded: " + strings.TrimSuffix(fields, ".")
		}
	}
	return ""
}

// maxEvents is how many of the latest events are shown.
const maxEvents = 15

// events reads the latest events of the job, its gang and its pods.
func events(ctx context.Context, reader client.Reader, p *page) ([]corev1.Event, error) {
	concerned := map[types.UID]bool{p.job.UID: true}
	for i := range p.pods {
		concerned[p.pods[i].UID] = true
	}
	var found []corev1.Event
	for _, kind := range []string{"TrainingJob", "Gang", "Pod"} {
		var list corev1.EventList
		selector := client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("involvedObject.kind", kind)}
		if err := reader.List(ctx, &list, client.InNamespace(p.job.Namespace), selector); err != nil {
			return nil, fmt.Errorf("listing the events: %w", err)
		}
		for i := range list.Items {
			about := list.Items[i].InvolvedObject
			if concerned[about.UID] || about.Kind == "Gang" && about.Name == p.job.Name {
				found = append(found, list.Items[i])
			}
		}
	}
	slices.SortStableFunc(found, func(a, b corev1.Event) int { return eventTime(&a).Compare(eventTime(&b)) })
	if len(found) > maxEvents {
		found = found[len(found)-maxEvents:]
	}
	return found, nil
}

func eventTime(event *corev1.Event) time.Time {
	switch {
	case event.Series != nil:
		return event.Series.LastObservedTime.Time
	case !event.LastTimestamp.IsZero():
		return event.LastTimestamp.Time
	case !event.EventTime.IsZero():
		return event.EventTime.Time
	}
	return event.CreationTimestamp.Time
}
