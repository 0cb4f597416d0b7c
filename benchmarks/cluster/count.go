package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// counter watches pods.
type counter struct{ watcher watch.Interface }

// count begins to watch the pods of the namespace from now on.
func (p *plane) count(ctx context.Context) (*counter, error) {
	list, err := p.core.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("beginning to count pods: %w", err)
	}
	w, err := p.core.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		return nil, fmt.Errorf("beginning to count pods: %w", err)
	}
	return &counter{watcher: w}, nil
}

// until returns when n different pods were what is asked for.
func (c *counter) until(ctx context.Context, n int, is func(watch.EventType, *corev1.Pod) bool) (time.Time, error) {
	seen := make(map[string]bool, n)
	for len(seen) < n {
		select {
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("waiting for %d pods, of which %d came: %w", n, len(seen), ctx.Err())
		case e, ok := <-c.watcher.ResultChan():
			if !ok {
				return time.Time{}, fmt.Errorf("the watch of pods ended when %d of %d had come", len(seen), n)
			}
			if pod, isPod := e.Object.(*corev1.Pod); isPod && is(e.Type, pod) {
				seen[string(pod.UID)] = true
			}
		}
	}
	return time.Now(), nil
}

func (c *counter) stop() { c.watcher.Stop() }

// onNode is true of a pod that has its node.
func onNode(t watch.EventType, p *corev1.Pod) bool {
	return t != watch.Deleted && p.Spec.NodeName != ""
}

// leaving is true of a pod that was told to go.
func leaving(t watch.EventType, p *corev1.Pod) bool {
	return t == watch.Deleted || p.DeletionTimestamp != nil
}
