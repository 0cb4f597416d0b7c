package why

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/explanation"
	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/snapshot"
	"github.com/muster-dev/muster/internal/startup"
)

// askPod answers for a pod. A member stands where its job, or its gang, does.
func askPod(ctx context.Context, reader client.Reader, explain explain, namespace, name string) (Answer, error) {
	p := &corev1.Pod{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, p)
	switch {
	case apierrors.IsNotFound(err):
		return Answer{}, exit.NotFound("there is no pod %s in namespace %s; `muster get pods` lists them", name, namespace)
	case err != nil:
		return Answer{}, fmt.Errorf("reading pod %s: %w", name, err)
	}
	if of := p.Labels[v1alpha1.LabelGang]; of != "" {
		return askMember(ctx, reader, explain, p, of)
	}
	answer := Answer{Job: subject{kindPod, name}.String()}
	switch {
	case p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed:
		answer.Phase, answer.Code, answer.Reason = v1alpha1.JobPhase(p.Status.Phase), p.Status.Reason, ended(p)
		return answer, nil
	case p.DeletionTimestamp != nil:
		answer.Phase = "Stopping"
		answer.Reason = fmt.Sprintf("it was deleted, and goes once %s has ended it", cmp.Or(p.Spec.NodeName, "the API server"))
		return answer, nil
	}
	x, err := explain(ctx, reader, scheduling.Key{Namespace: namespace, Name: name}, true)
	if err != nil && !apierrors.IsNotFound(err) {
		return Answer{}, fmt.Errorf("explaining pod %s: %w", name, err)
	}
	placed := err == nil
	if placed {
		clock := snapshot.Clock(time.Now(), time.Local)
		answer.Document = explanation.New(x, clock)
		answer.Code, answer.Reason, answer.Details = string(x.Reason.Code()), x.Reason.Render(clock), explanation.Details(x.Reason)
	}
	if p.Spec.NodeName == "" {
		answer.Phase = v1alpha1.JobWaiting
		if !placed {
			answer.Code, answer.Reason = waits(p)
		}
		return answer, nil
	}
	answer.started(ctx, reader, p)
	return answer, nil
}

// askMember answers for the job of a member's pod, or for its gang where no job made it.
func askMember(ctx context.Context, reader client.Reader, explain explain, p *corev1.Pod, of string) (Answer, error) {
	if name := p.Labels[v1alpha1.LabelJob]; name != "" {
		answer, err := askJob(ctx, reader, explain, p.Namespace, name)
		if code, _ := exit.Of(err); code != exit.Missing {
			return answer, err
		}
	}
	return askGang(ctx, reader, explain, p.Namespace, of)
}

// started adds the state that the pod's node reports.
func (a *Answer) started(ctx context.Context, reader client.Reader, p *corev1.Pod) {
	events := eventsOf(ctx, reader, p)
	if p.Status.Phase != corev1.PodRunning {
		a.Phase, a.Code, a.Details = v1alpha1.JobStarting, "Starting", nil
		if _, fault := startup.Of(p, events); fault {
			a.Code = v1alpha1.ReasonCannotStart
		}
		a.Reason = fmt.Sprintf("on node %s since %s: %s", p.Spec.NodeName, bound(p), startup.Words(p, events))
		return
	}
	a.Phase = v1alpha1.JobRunning
	for _, c := range p.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil {
			a.Code, a.Details = w.Reason, nil
			a.Reason = fmt.Sprintf("on node %s, but container %s does not run: %s", p.Spec.NodeName, c.Name, strings.TrimSuffix(w.Reason+": "+w.Message, ": "))
			return
		}
	}
	if a.Reason == "" {
		a.Reason = fmt.Sprintf("runs on node %s since %s", p.Spec.NodeName, bound(p))
	}
}

// bound is the time since which a pod has its node, in words.
func bound(p *corev1.Pod) string {
	at := p.CreationTimestamp
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			at = c.LastTransitionTime
		}
	}
	return at.Local().Format(time.DateTime)
}

// eventsOf are the events of a pod; none where they cannot be read.
func eventsOf(ctx context.Context, reader client.Reader, p *corev1.Pod) []corev1.Event {
	var list corev1.EventList
	selector := fields.OneTermEqualSelector("involvedObject.uid", string(p.UID))
	if err := reader.List(ctx, &list, client.InNamespace(p.Namespace), client.MatchingFieldsSelector{Selector: selector}); err != nil {
		return nil // the status of the pod has most reasons
	}
	return list.Items
}

// waits is for a pod without a node that is not in Muster's queue.
func waits(p *corev1.Pod) (code, reason string) {
	if len(p.Spec.SchedulingGates) > 0 {
		return "SchedulingGated", fmt.Sprintf("it has the scheduling gate %s: whatever set it removes it", p.Spec.SchedulingGates[0].Name)
	}
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Message != "" {
			return c.Reason, fmt.Sprintf("scheduler %s says: %s", p.Spec.SchedulerName, c.Message)
		}
	}
	if p.Spec.SchedulerName != v1alpha1.SchedulerName {
		return "OtherScheduler", fmt.Sprintf("it waits for scheduler %s, and Muster does not place it: for Muster, set spec.schedulerName to %s where the pod is made", p.Spec.SchedulerName, v1alpha1.SchedulerName)
	}
	return "", "the scheduler has not looked at it yet; is a manager of Muster running? See `muster doctor`"
}

// ended is a sentence about the end of a pod.
func ended(p *corev1.Pod) string {
	if p.Status.Message != "" {
		return p.Status.Message
	}
	for _, c := range p.Status.ContainerStatuses {
		if t := c.State.Terminated; t != nil && (t.ExitCode != 0 || p.Status.Phase == corev1.PodSucceeded) {
			return strings.TrimSuffix(fmt.Sprintf("container %s ended with exit code %d (%s): %s", c.Name, t.ExitCode, t.Reason, strings.TrimSpace(t.Message)), ": ")
		}
	}
	return "it has ended"
}

// askGang answers for a gang; for that of a training job by the job.
func askGang(ctx context.Context, reader client.Reader, explain explain, namespace, name string) (Answer, error) {
	g := &v1alpha1.Gang{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, g)
	switch {
	case apierrors.IsNotFound(err):
		return Answer{}, exit.NotFound("there is no gang %s in namespace %s; `muster get gangs` lists them", name, namespace)
	case err != nil:
		return Answer{}, fmt.Errorf("reading gang %s: %w", name, err)
	}
	if by := metav1.GetControllerOf(g); by != nil && by.Kind == "TrainingJob" {
		return askJob(ctx, reader, explain, namespace, by.Name)
	}
	answer := Answer{Job: subject{kindGang, name}.String(), Phase: v1alpha1.JobPhase(g.Status.Phase), Code: g.Status.Reason, Reason: g.Status.Message}
	switch g.Status.Phase {
	case v1alpha1.GangSucceeded, v1alpha1.GangFailed:
	default:
		key := scheduling.Key{Namespace: namespace, Name: name}
		if err := answer.account(ctx, reader, explain, key, g.Status.Reason != "" && g.Status.Message != ""); err != nil {
			return Answer{}, err
		}
	}
	answer.Phase = cmp.Or(answer.Phase, "Accepted")
	answer.Reason = cmp.Or(answer.Reason, "nothing holds it up")
	return answer, nil
}
