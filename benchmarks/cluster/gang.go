package main

import (
	"context"
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
