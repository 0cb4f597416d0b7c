package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// counter watches pods.
type counter struct{ watcher watch.Interface }

// count begins to watch the pods of the namespace from now on.
func (p *plane) count(ctx context.Context) (*counter, error) {
	list, err := p.core.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("beginning to count pods: %w", err)
	}
	w, err := p.watchPods(ctx, list.ResourceVersion)
	return &counter{watcher: w}, err
}

// watchPods watches the pods of the namespace from a version on. The server
// ends the watch of who cannot follow for a moment; it is taken up again where
// it ended.
func (p *plane) watchPods(ctx context.Context, version string) (watch.Interface, error) {
	return retried(ctx, version, func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		return p.core.CoreV1().Pods(namespace).Watch(ctx, o)
	})
}

// watch watches Muster's objects in the namespace from now on, likewise.
func (p *plane) watch(ctx context.Context, kind client.ObjectList) (watch.Interface, error) {
	if err := p.gangs.List(ctx, kind, client.InNamespace(namespace), client.Limit(1)); err != nil {
		return nil, fmt.Errorf("beginning to watch %T: %w", kind, err)
	}
	return retried(ctx, kind.GetResourceVersion(), func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		return p.gangs.Watch(ctx, kind, &client.ListOptions{Namespace: namespace, Raw: &o})
	})
}

func retried(ctx context.Context, version string, start cache.WatchFuncWithContext) (watch.Interface, error) {
	w, err := watchtools.NewRetryWatcherWithContext(ctx, version, &cache.ListWatch{WatchFuncWithContext: start})
	if err != nil {
		return nil, fmt.Errorf("watching: %w", err)
	}
	return w, nil
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
			if e.Type == watch.Error {
				return time.Time{}, fmt.Errorf("watching pods, of which %d of %d had come: %w", len(seen), n, apierrors.FromObject(e.Object))
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
