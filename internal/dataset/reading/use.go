package reading

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data/cache"
)

// InUse tells which keys of a cache jobs that have not finished, and pods, name; scope is
// [Options.Scope]. An error means that this is not known, and that nothing may be
// removed.
func InUse(server client.Reader, scope func(namespace string) string) func(context.Context) (map[string]bool, error) {
	return func(ctx context.Context) (map[string]bool, error) {
		jobs := &v1alpha1.TrainingJobList{}
		if err := server.List(ctx, jobs); err != nil {
			return nil, fmt.Errorf("listing the jobs: %w", err)
		}
		keys := map[string]bool{}
		for i := range jobs.Items {
			for _, d := range jobs.Items[i].Status.Data {
				if !unneeded(&jobs.Items[i]) {
					keys[cache.Scoped(scope(jobs.Items[i].Namespace), d.Key)] = true
				}
			}
		}
		pods := &corev1.PodList{}
		if err := server.List(ctx, pods); err != nil {
			return nil, fmt.Errorf("listing the pods: %w", err)
		}
		for i := range pods.Items {
			for _, v := range pods.Items[i].Spec.Volumes {
				if v.CSI != nil && v.CSI.Driver == v1alpha1.DataDriver && !ended(&pods.Items[i]) {
					keys[cache.Scoped(scope(pods.Items[i].Namespace), v.CSI.VolumeAttributes["key"])] = true
				}
			}
		}
		return keys, nil
	}
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
