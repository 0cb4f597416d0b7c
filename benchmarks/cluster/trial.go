package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// clear deletes every pod at once.
func (p *plane) clear(ctx context.Context) error {
	pods, err := p.core.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return fmt.Errorf("listing the pods: %w", err)
	}
	if err := each(len(pods.Items), func(i int) error { return p.finish(ctx, pods.Items[i].Name) }); err != nil {
		return fmt.Errorf("removing the pods: %w", err)
	}
	return nil
}

// spent is what a trial took: time, and CPU time of all that took part.
type spent struct{ wall, cpu time.Duration }

// timed runs one trial: begins to count, submits, and waits until n pods are on
// their nodes, by being created or by being bound.
func (p *plane) timed(ctx context.Context, n int, is func(*answer) bool, submit func() error) (spent, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 5*time.Minute, errors.New("not within 5 minutes"))
	defer cancel()
	c, err := p.count()
	if err != nil {
		return spent{}, err
	}
	used, err := p.cpu()
	if err != nil {
		return spent{}, err
	}
	began, failed := time.Now(), make(chan error, 1)
	go func() {
		err := submit()
		if err != nil {
			cancel()
		}
		failed <- err
	}()
	last, err := c.until(ctx, n, is)
	if err != nil {
		cancel()
	}
	if err := errors.Join(<-failed, err); err != nil {
		return spent{}, err
	}
	by, err := p.cpu()
	return spent{last.Sub(began), by - used}, err
}

// submitted makes n pods with so many GPUs each, and returns how long it took
// until all were on their nodes. They are removed again.
func (p *plane) submitted(ctx context.Context, prefix string, n, gpus int, is func(*answer) bool, edit func(int, *corev1.Pod)) (spent, error) {
	took, err := p.timed(ctx, n, is, func() error {
		return each(n, func(i int) error {
			pod := member(fmt.Sprintf("%s-%d", prefix, i), gpus)
			edit(i, pod)
			_, err := p.core.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
			return err
		})
	})
	if err != nil {
		return spent{}, fmt.Errorf("the pods %s-*: %w", prefix, err)
	}
	return took, p.clear(ctx)
}

// ceiling is the raw one: n pods, created with their nodes.
func (p *plane) ceiling(ctx context.Context, n, gpus, nodes int) (spent, error) {
	return p.submitted(ctx, "bare", n, gpus, created, func(i int, pod *corev1.Pod) { pod.Spec.NodeName = nodeName(i % nodes) })
}

// stock is kube-scheduler without a gang's guarantee: n pods, created without
// nodes.
func (p *plane) stock(ctx context.Context, n, gpus int) (spent, error) {
	return p.submitted(ctx, "stock", n, gpus, bound, func(int, *corev1.Pod) {})
}

// native is kube-scheduler with its own gang scheduling: a PodGroup that needs
// all of n pods, and the pods.
func (p *plane) native(ctx context.Context, name string, n, gpus int) (spent, error) {
	group := &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: schedulingv1beta1.PodGroupSpec{SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
			Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(n)},
		}},
	}
	took, err := p.timed(ctx, n, bound, func() error {
		if err := p.gangs.Create(ctx, group); err != nil {
			return fmt.Errorf("making a PodGroup: %w", err)
		}
		return each(n, func(i int) error {
			pod := member(fmt.Sprintf("%s-%d", name, i), gpus)
			pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
			_, err := p.core.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
			return err
		})
	})
	if err != nil {
		return spent{}, fmt.Errorf("kube-scheduler's gang: %w", err)
	}
	return took, errors.Join(p.clear(ctx), client.IgnoreNotFound(p.gangs.Delete(ctx, group)))
}
