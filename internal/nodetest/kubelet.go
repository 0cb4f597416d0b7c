package nodetest

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
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
	var working sync.WaitGroup
	c.t.Cleanup(func() {
		cancel()
		working.Wait()
	})
	slots := make(chan struct{}, mostWrites)
	shown := func(object any) {
		p, ok := object.(*corev1.Pod)
		if !ok {
			return
		}
		working.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			c.follow(ctx, p, runs)
		})
	}
	// An informer lists and watches again after the API server has ended a watch.
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: c.pods(), ObjectType: &corev1.Pod{},
		Handler: cache.ResourceEventHandlerFuncs{AddFunc: shown, UpdateFunc: func(_, object any) { shown(object) }},
	})
	working.Go(func() { informer.RunWithContext(ctx) })
}

// pods lists and watches the pods of all namespaces.
func (c *Cluster) pods() *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list := &corev1.PodList{}
			return list, c.api.List(ctx, list, &client.ListOptions{Raw: &o, Limit: o.Limit, Continue: o.Continue})
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return c.api.Watch(ctx, &corev1.PodList{}, &client.ListOptions{Raw: &o})
		},
	}
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
