package transcript

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// retryEvery is how long to wait before a lost connection is tried again.
	retryEvery = 500 * time.Millisecond
	// giveUpAfter is how long the server may be away.
	giveUpAfter = 30 * time.Second
)

// change is an object that was seen, or that is gone.
type change struct {
	object client.Object
	gone   bool
}

// observer lists and watches objects of one kind.
type observer struct {
	client  client.WithWatch
	newList func() client.ObjectList
	options []client.ListOption
	out     chan<- change
	// lost is called when the connection is lost, once each time.
	lost func(error)

	known map[types.UID]client.Object
}

// run sends every change to out until ctx ends (nil) or the server stays away
// too long. What changed while the connection was lost is sent once it is back.
func (o *observer) run(ctx context.Context) error {
	o.known = map[types.UID]client.Object{}
	var since time.Time
	for {
		begun, err := o.once(ctx)
		if begun {
			since = time.Time{}
		}
		if err != nil && ctx.Err() == nil {
			if since.IsZero() {
				since = time.Now()
				o.lost(err)
			}
			if time.Since(since) > giveUpAfter {
				return fmt.Errorf("the server has been away for %s: %w", giveUpAfter, err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(retryEvery):
		}
	}
}

// once lists, then watches until the connection ends. It reports whether the
// watch had begun.
func (o *observer) once(ctx context.Context) (begun bool, err error) {
	list := o.newList()
	if err := o.client.List(ctx, list, o.options...); err != nil {
		return false, err
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return false, err
	}
	present := map[types.UID]bool{}
	for _, item := range items {
		if object, ok := item.(client.Object); ok {
			present[object.GetUID()] = true
			if !o.send(ctx, object, false) {
				return true, nil
			}
		}
	}
	for uid, object := range o.known {
		if !present[uid] && !o.send(ctx, object, true) {
			return true, nil
		}
	}
	options := append([]client.ListOption{&client.ListOptions{Raw: rawFrom(list.GetResourceVersion())}}, o.options...)
	watcher, err := o.client.Watch(ctx, o.newList(), options...)
	if err != nil {
		return false, err
	}
	defer watcher.Stop()
	for {
		select {
		case <-ctx.Done():
			return true, nil
		case event, ok := <-watcher.ResultChan():
			if !ok || event.Type == watch.Error {
				return true, nil
			}
			object, isObject := event.Object.(client.Object)
			if !isObject || event.Type == watch.Bookmark {
				continue
			}
			if !o.send(ctx, object, event.Type == watch.Deleted) {
				return true, nil
			}
		}
	}
}

func (o *observer) send(ctx context.Context, object client.Object, gone bool) bool {
	if gone {
		delete(o.known, object.GetUID())
	} else {
		o.known[object.GetUID()] = object
	}
	select {
	case o.out <- change{object: object, gone: gone}:
		return true
	case <-ctx.Done():
		return false
	}
}
