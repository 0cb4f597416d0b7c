package pipeline

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// workerEnded returns a function that returns why a worker of a job has ended. The status of its
// pod has the reason, also if the kernel killed the worker together with its program.
func (c *Runs) workerEnded(namespace, job string) func(context.Context, string, time.Time) (string, bool) {
	return func(ctx context.Context, member string, since time.Time) (string, bool) {
		role, index, ok := strings.Cut(member, "/")
		if !ok {
			return "", true
		}
		pods := &corev1.PodList{}
		labels := client.MatchingLabels{v1alpha1.LabelJob: job, v1alpha1.LabelRole: role, v1alpha1.LabelIndex: index}
		if err := c.live.List(ctx, pods, client.InNamespace(namespace), labels); err != nil {
			return "", false
		}
		vain := true
		for i := range pods.Items {
			pod := &pods.Items[i]
			if reason := containerEnded(pod, since); reason != "" {
				return reason, true
			}
			vain = vain && pod.CreationTimestamp.After(since) // it is of the next worker
		}
		return "", vain
	}
}

// containerEnded returns the reason why a container of a pod ended since a time; empty if none
// has.
func containerEnded(pod *corev1.Pod, since time.Time) string {
	for i := range pod.Status.ContainerStatuses {
		status := &pod.Status.ContainerStatuses[i]
		for _, state := range []corev1.ContainerState{status.State, status.LastTerminationState} {
			// The API has whole seconds.
			if end := state.Terminated; end != nil && !end.FinishedAt.Time.Before(since.Truncate(time.Second)) {
				return ending(pod, status.Name, end)
			}
		}
	}
	return ""
}

// ending describes the end of a container, with the limit that it was killed for.
func ending(pod *corev1.Pod, container string, end *corev1.ContainerStateTerminated) string {
	if end.Reason != "OOMKilled" {
		return fmt.Sprintf("its worker ended (%s, exit code %d)", end.Reason, end.ExitCode)
	}
	for i := range pod.Spec.Containers {
		one := &pod.Spec.Containers[i]
		if limit := one.Resources.Limits.Memory(); one.Name == container && !limit.IsZero() {
			return fmt.Sprintf("OOM killed: the program and its worker need more memory than their limit of %.1f MiB; raise the stage's memory limit", float64(limit.Value())/(1<<20))
		}
	}
	return "OOM killed: the machine had no memory left"
}
