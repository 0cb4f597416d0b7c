package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// inFlight is how many requests whoever writes in bulk has under way.
const inFlight = 64

// each calls do for 0 to n-1, inFlight at once, and waits for all.
func each(n int, do func(int) error) error {
	var wg sync.WaitGroup
	slots := make(chan struct{}, inFlight)
	errs := make([]error, n)
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[i] = do(i)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// nodeName is the name of a node of the fleet.
func nodeName(i int) string { return fmt.Sprintf("node-%04d", i) }

// fleet makes n nodes with so many GPUs each: ready, and without heartbeats.
func (p *plane) fleet(ctx context.Context, n, gpus int) error {
	return each(n, func(i int) error {
		amounts := corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("128"), corev1.ResourceMemory: resource.MustParse("1Ti"),
			corev1.ResourcePods: resource.MustParse("110"), "nvidia.com/gpu": *resource.NewQuantity(int64(gpus), resource.DecimalSI),
		}
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: nodeName(i), Labels: map[string]string{
				"kubernetes.io/hostname": nodeName(i), "muster.dev/owned": "true",
				"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.memory": "81920",
			}},
			Status: corev1.NodeStatus{
				Capacity: amounts, Allocatable: amounts,
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Static"}},
			},
		}
		if _, err := p.core.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("making a node: %w", err)
		}
		return nil
	})
}

// member is a pod as a gang's members are.
func member(name string, gpus int) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: memberSpec(gpus)}
}

// memberSpec is what each member asks for.
func memberSpec(gpus int) corev1.PodSpec {
	no := false
	return corev1.PodSpec{
		AutomountServiceAccountToken: &no, RestartPolicy: corev1.RestartPolicyNever,
		Containers: []corev1.Container{{
			Name: "main", Image: "pause",
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")},
				Limits:   corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(int64(gpus), resource.DecimalSI)},
			},
		}},
	}
}
