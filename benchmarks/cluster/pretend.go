package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// pretender takes the part of all kubelets.
type pretender struct {
	// ends says that pods succeed as soon as they run.
	ends bool
	fail chan error
	done chan struct{}
}

// pretend begins to act for every pod of the namespace until ctx ends.
func (p *plane) pretend(ctx context.Context, ends bool) (*pretender, error) {
	list, err := p.core.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("beginning to act for the kubelets: %w", err)
	}
	w, err := p.watchPods(ctx, list.ResourceVersion)
	if err != nil {
		return nil, err
	}
	k := &pretender{ends: ends, fail: make(chan error, 1), done: make(chan struct{})}
	go func() {
		defer close(k.done)
		slots := make(chan struct{}, inFlight)
		for e := range w.ResultChan() {
			pod, ok := e.Object.(*corev1.Pod)
			if !ok || e.Type == watch.Deleted || pod.Spec.NodeName == "" {
				continue
			}
			slots <- struct{}{}
			go func() {
				defer func() { <-slots }()
				if err := k.act(ctx, p, pod); err != nil && ctx.Err() == nil {
					select {
					case k.fail <- err:
					default:
					}
				}
			}()
		}
		for range inFlight {
			slots <- struct{}{}
		}
	}()
	return k, nil
}

// act does what a kubelet would do about a pod as it is seen.
func (k *pretender) act(ctx context.Context, p *plane, pod *corev1.Pod) error {
	switch {
	case pod.DeletionTimestamp != nil:
		return p.finish(ctx, pod.Name)
	case pod.Status.Phase == corev1.PodPending:
		return p.say(ctx, pod, running(pod))
	case pod.Status.Phase == corev1.PodRunning && k.ends:
		return p.say(ctx, pod, succeeded(pod))
	}
	return nil
}

// say writes a pod's status.
func (p *plane) say(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
	if err != nil {
		return err
	}
	_, err = p.core.CoreV1().Pods(namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

func running(pod *corev1.Pod) corev1.PodStatus {
	now := metav1.Now()
	return corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &now,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now}},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: pod.Spec.Containers[0].Name, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		}},
	}
}

func succeeded(pod *corev1.Pod) corev1.PodStatus {
	now := metav1.NewTime(time.Now())
	return corev1.PodStatus{
		Phase: corev1.PodSucceeded, StartTime: pod.Status.StartTime,
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: pod.Spec.Containers[0].Name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: now, Reason: "Completed"}},
		}},
	}
}
