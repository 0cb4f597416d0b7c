package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// gang is one of n members of so many GPUs each.
func gang(name string, n int32, gpus int64) *v1alpha1.Gang {
	return &v1alpha1.Gang{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Finalizers: []string{v1alpha1.GangFinalizer}},
		Spec: v1alpha1.GangSpec{
			DoneWhen: []string{"worker"},
			Roles: []v1alpha1.GangRole{{
				Name: "worker", Replicas: n, GPUs: resource.NewQuantity(gpus, resource.DecimalSI),
				Template: corev1.PodTemplateSpec{Spec: withoutGPUs(memberSpec(0))},
			}},
		},
	}
}

// withoutGPUs leaves it to the gang to ask for GPUs.
func withoutGPUs(spec corev1.PodSpec) corev1.PodSpec {
	spec.Containers[0].Resources.Limits = nil
	return spec
}

// removeGangs deletes gangs, lets their pods go at once, and waits until
// nothing of them is left.
func (p *plane) removeGangs(ctx context.Context, names ...string) error {
	err := each(len(names), func(i int) error {
		g := &v1alpha1.Gang{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: names[i]}}
		return client.IgnoreNotFound(p.gangs.Delete(ctx, g))
	})
	if err != nil {
		return fmt.Errorf("deleting gangs: %w", err)
	}
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		if err := p.letGo(ctx); err != nil {
			return err
		}
		var left v1alpha1.PlacementList
		if err := p.gangs.List(ctx, &left, client.InNamespace(namespace)); err != nil {
			return fmt.Errorf("looking for what is left of gangs: %w", err)
		}
		if len(left.Items) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until %d placements are gone: %w", len(left.Items), ctx.Err())
		case <-ticker.C:
		}
	}
}

// letGo takes away the pods that were told to go, as a kubelet does.
func (p *plane) letGo(ctx context.Context) error {
	pods, err := p.core.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing pods: %w", err)
	}
	return each(len(pods.Items), func(i int) error {
		if pods.Items[i].DeletionTimestamp == nil {
			return nil
		}
		return p.finish(ctx, pods.Items[i].Name)
	})
}

// finish deletes a pod without waiting for its node.
func (p *plane) finish(ctx context.Context, name string) error {
	now := int64(0)
	err := p.core.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	return client.IgnoreNotFound(err)
}

// clear deletes every pod at once.
func (p *plane) clear(ctx context.Context) error {
	now := int64(0)
	err := p.core.CoreV1().Pods(namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("removing the pods: %w", err)
	}
	return nil
}

// timed runs one trial: begins to count, submits, and waits until n pods are on
// their nodes. It returns how long that took.
func (p *plane) timed(ctx context.Context, n int, submit func() error) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	c, err := p.count(ctx)
	if err != nil {
		return 0, err
	}
	defer c.stop()
	began, failed := time.Now(), make(chan error, 1)
	go func() {
		err := submit()
		if err != nil {
			cancel()
		}
		failed <- err
	}()
	last, err := c.until(ctx, n, onNode)
	cancelled := err != nil
	if cancelled {
		cancel()
	}
	if err := errors.Join(<-failed, err); err != nil {
		return 0, err
	}
	return last.Sub(began), nil
}

// ceiling is the raw one: n pods, created with their nodes.
func (p *plane) ceiling(ctx context.Context, n, gpus, nodes int) (time.Duration, error) {
	took, err := p.timed(ctx, n, func() error {
		return each(n, func(i int) error {
			pod := member(fmt.Sprintf("bare-%d", i), gpus)
			pod.Spec.NodeName = nodeName(i % nodes)
			_, err := p.core.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
			return err
		})
	})
	if err != nil {
		return 0, fmt.Errorf("creating bare pods: %w", err)
	}
	return took, p.clear(ctx)
}

// stock is kube-scheduler without a gang's guarantee: n pods, created without
// nodes.
func (p *plane) stock(ctx context.Context, n, gpus int) (time.Duration, error) {
	took, err := p.timed(ctx, n, func() error {
		return each(n, func(i int) error {
			_, err := p.core.CoreV1().Pods(namespace).Create(ctx, member(fmt.Sprintf("stock-%d", i), gpus), metav1.CreateOptions{})
			return err
		})
	})
	if err != nil {
		return 0, fmt.Errorf("kube-scheduler: %w", err)
	}
	return took, p.clear(ctx)
}

// oneGang measures a gang of 1,000 x 4 GPUs on 1,000 nodes of 4 and on 5,000
// of 8, beside bare creation and kube-scheduler.
func (b *bench) oneGang(ctx context.Context) error {
	n := 1000 / b.scale
	first, err := b.oneGangOn(ctx, n, 4, n)
	if err != nil {
		return err
	}
	second, err := b.oneGangOn(ctx, 5*n, 8, n)
	if err != nil {
		return err
	}
	b.table.check(fmt.Sprintf("the same on %d nodes x 8", 5*n), seconds(second.muster), "<= 1.2 x the row above", second.muster <= first.muster*6/5,
		fmt.Sprintf("%.2f x; bare %s, %.2f x bare; kube-scheduler %s", ratio(second.muster, first.muster), seconds(second.bare), ratio(second.muster, second.bare), seconds(second.stock)))
	return nil
}

// trial is what one gang of members took.
type trial struct{ bare, muster, stock time.Duration }

// trials is how often each figure is measured; the median is reported.
const trials = 3

// unlimited takes the limit of requests off kube-scheduler, which is 50 a
// second by default.
var unlimited = map[string][]string{"kube-scheduler": {"--kube-api-qps=100000", "--kube-api-burst=100000"}}

func (b *bench) oneGangOn(ctx context.Context, nodes, gpus, members int) (trial, error) {
	var t trial
	var bare, muster, stock []time.Duration
	err := b.with(ctx, planeOptions{scheduler: true, args: unlimited}, func(p *plane) error {
		if err := p.fleet(ctx, nodes, gpus); err != nil {
			return err
		}
		for range trials {
			took, err := p.ceiling(ctx, members, 4, nodes)
			if err != nil {
				return err
			}
			bare = append(bare, took)
			if took, err = p.stock(ctx, members, 4); err != nil {
				return err
			}
			stock = append(stock, took)
		}
		s, err := b.serve(ctx, p)
		if err != nil {
			return err
		}
		for i := range trials {
			name := fmt.Sprintf("gang-%d", i)
			took, err := p.timed(ctx, members, func() error { return p.gangs.Create(ctx, gang(name, int32(members), 4)) })
			if err != nil {
				return errors.Join(fmt.Errorf("muster: %w", err), s.kill(), errors.New(tail(s.log)))
			}
			muster = append(muster, took)
			if err := p.removeGangs(ctx, name); err != nil {
				return errors.Join(err, s.kill())
			}
		}
		return s.stop(ctx)
	})
	if err != nil {
		return t, err
	}
	t = trial{bare: middle(bare), muster: middle(muster), stock: middle(stock)}
	if nodes == members {
		what := fmt.Sprintf("%d nodes x %d, one gang of %d x 4 GPUs: submit to every pod on its node", nodes, gpus, members)
		b.table.add("bare creation of the same pods", seconds(t.bare), spread(bare))
		b.table.check(what, seconds(t.muster), "<= 1.25 x bare", t.muster <= t.bare*5/4, fmt.Sprintf("%.2f x bare; %s", ratio(t.muster, t.bare), spread(muster)))
		b.table.check("kube-scheduler, no gang guarantee, the same pods", seconds(t.stock), ">= 3 x muster", t.stock >= 3*t.muster, fmt.Sprintf("%.2f x muster; unlimited QPS; %s", ratio(t.stock, t.muster), spread(stock)))
	}
	return t, nil
}
