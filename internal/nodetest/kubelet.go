package nodetest

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// mostWrites limits the concurrent writes of [Cluster.Kubelet].
const mostWrites = 32

// Wait sets the reason for which the first container of a pod waits.
func (c *Cluster) Wait(p *corev1.Pod, reason, message string) {
	c.t.Helper()
	after, now := p.DeepCopy(), metav1.Now()
	after.Status.Phase, after.Status.StartTime = corev1.PodPending, &now
	after.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: p.Spec.Containers[0].Name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
	}}
	if err := c.api.Status().Patch(c.t.Context(), after, client.MergeFrom(p)); err != nil {
		c.t.Fatal(err)
	}
}

// Run makes the pending pods of a gang run.
func (c *Cluster) Run(gang string) {
	c.t.Helper()
	for _, p := range c.Pods(gang) {
		if p.DeletionTimestamp != nil || p.Status.Phase != corev1.PodPending {
			continue
		}
		if err := client.IgnoreNotFound(c.run(c.t.Context(), &p)); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *Cluster) run(ctx context.Context, p *corev1.Pod) error {
	after, now := p.DeepCopy(), metav1.Now()
	after.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &now}
	return c.api.Status().Patch(ctx, after, client.MergeFrom(p))
}

// Kubelet removes deleted pods until the test ends. If runs is true, it also makes each pod run
// that has a node.
func (c *Cluster) Kubelet(runs bool) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	changes, err := c.api.Watch(ctx, &corev1.PodList{})
	if err != nil {
		cancel()
		c.t.Fatal(err)
	}
	var working sync.WaitGroup
	c.t.Cleanup(func() {
		cancel()
		changes.Stop()
		working.Wait()
	})
	slots := make(chan struct{}, mostWrites)
	working.Go(func() {
		for event := range changes.ResultChan() {
			p, ok := event.Object.(*corev1.Pod)
			if !ok {
				continue
			}
			slots <- struct{}{}
			working.Go(func() {
				defer func() { <-slots }()
				c.follow(ctx, p, runs)
			})
		}
	})
}

// follow ignores errors: another change of the pod follows a conflict, and the test may end.
func (c *Cluster) follow(ctx context.Context, p *corev1.Pod, runs bool) {
	switch {
	case p.DeletionTimestamp != nil:
		_ = c.api.Delete(ctx, p, client.GracePeriodSeconds(0))
	case runs && p.Spec.NodeName != "" && p.Status.Phase == corev1.PodPending && p.Status.StartTime == nil:
		_ = c.run(ctx, p)
	}
}
