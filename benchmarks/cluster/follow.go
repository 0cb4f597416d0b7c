package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// follower is a watch that is taken up again, without a pause and where it
// ended, whenever the server ends it: it does that to everybody who cannot
// follow for a moment, which on two busy cores is everybody. (The RetryWatcher
// of client-go waits for a second before it asks again, and what happens
// meanwhile is then seen up to a second late.)
type follower struct {
	// start asks for a watch from a version on.
	start func(context.Context, metav1.ListOptions) (watch.Interface, error)
	// version is that of the last event.
	version string
	// ends is how often the server ended the watch.
	ends int
}

// pause is before the server is asked again that did not answer.
const pause = 10 * time.Millisecond

// follow calls see for every event after the version, in order, until see
// returns false or the context ends.
func (f *follower) follow(ctx context.Context, see func(watch.Event) bool) error {
	for {
		w, err := f.start(ctx, metav1.ListOptions{ResourceVersion: f.version, AllowWatchBookmarks: true})
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			enough, err := f.drain(ctx, w, see)
			if enough || err != nil {
				return err
			}
			f.ends++
			continue
		case apierrors.IsGone(err) || apierrors.IsResourceExpired(err):
			return fmt.Errorf("watching from version %s on, which the server no longer has: %w", f.version, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// drain reads one watch to its end. It is true once see has seen enough.
func (f *follower) drain(ctx context.Context, w watch.Interface, see func(watch.Event) bool) (bool, error) {
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case e, ok := <-w.ResultChan():
			if !ok {
				return false, nil
			}
			if e.Type == watch.Error {
				return false, f.failed(e)
			}
			if o, err := meta.Accessor(e.Object); err == nil {
				f.version = o.GetResourceVersion()
			}
			if e.Type != watch.Bookmark && !see(e) {
				return true, nil
			}
		}
	}
}

// failed is the error that a watch ended with; nil for those after which it can
// be taken up again.
func (f *follower) failed(e watch.Event) error {
	err := apierrors.FromObject(e.Object)
	status, is := err.(apierrors.APIStatus)
	if is && status.Status().Code == http.StatusGone {
		return fmt.Errorf("watching from version %s on, which the server no longer has: %w", f.version, err)
	}
	return nil
}

// followingPods follows the pods of the namespace that have a node, from now on.
// Others are not sent here, and so cost nobody anything.
func (p *plane) followingPods(ctx context.Context) (*follower, error) {
	list, err := p.core.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("asking for the version of the pods: %w", err)
	}
	start := func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		o.FieldSelector = fields.OneTermNotEqualSelector("spec.nodeName", "").String()
		return p.core.CoreV1().Pods(namespace).Watch(ctx, o)
	}
	return &follower{start: start, version: list.ResourceVersion}, nil
}

// following follows Muster's objects in the namespace from now on.
func (p *plane) following(ctx context.Context, kind client.ObjectList) (*follower, error) {
	if err := p.gangs.List(ctx, kind, client.InNamespace(namespace), client.Limit(1)); err != nil {
		return nil, fmt.Errorf("beginning to watch %T: %w", kind, err)
	}
	start := func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		return p.gangs.Watch(ctx, kind, &client.ListOptions{Namespace: namespace, Raw: &o})
	}
	return &follower{start: start, version: kind.GetResourceVersion()}, nil
}
