package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
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
	// began counts pods that were said to run.
	began atomic.Int64
}

// caughtUp waits until n pods were said to run.
func (k *pretender) caughtUp(ctx context.Context, n int) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for k.began.Load() < int64(n) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until %d pods run, of which %d do: %w", n, k.began.Load(), ctx.Err())
		case err := <-k.fail:
			return err
		case <-tick.C:
		}
	}
	return nil
}

// pretend begins to act for every pod of the namespace until ctx ends.
func (p *plane) pretend(ctx context.Context, ends bool) (*pretender, error) {
	f, err := p.followingPods(ctx)
	if err != nil {
		return nil, err
	}
	k := &pretender{ends: ends, fail: make(chan error, 1), done: make(chan struct{})}
	go func() {
		defer close(k.done)
		slots := make(chan struct{}, inFlight)
		var acting sync.WaitGroup
		err := f.follow(ctx, func(e watch.Event) bool {
			pod, ok := e.Object.(*corev1.Pod)
			if !ok || e.Type == watch.Deleted {
				return true
			}
			// Whoever waits for a slot does not keep the watch from being read: the
			// server forgets what is not asked for in time.
			acting.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				k.failed(ctx, k.act(ctx, p, pod))
			})
			return true
		})
		k.failed(ctx, err)
		acting.Wait()
	}()
	return k, nil
}

// failed passes the first error on, unless it is only that the end has come.
func (k *pretender) failed(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil {
		return
	}
	select {
	case k.fail <- err:
	default:
	}
}

// act does what a kubelet would do about a pod as it is seen.
func (k *pretender) act(ctx context.Context, p *plane, pod *corev1.Pod) error {
	switch {
	case pod.DeletionTimestamp != nil:
		return p.finish(ctx, pod.Name)
	case pod.Status.Phase == corev1.PodPending:
		defer k.began.Add(1)
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
