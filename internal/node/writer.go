package node

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// writer writes one pod's status. It keeps only the newest one, so that a slow
// API server delays a status and never queues them up.
type writer struct {
	pods   corev1client.PodInterface
	name   string
	uid    types.UID
	inbox  chan corev1.PodStatus // of capacity 1
	acked  func(corev1.PodStatus)
	absent func()
	failed func(error)
}

// put replaces the status to be written. Only one goroutine may call it.
func (w *writer) put(s corev1.PodStatus) {
	select {
	case <-w.inbox:
	default:
	}
	w.inbox <- s
}

// run writes until ctx ends.
func (w *writer) run(ctx context.Context) {
	const first, most = 50 * time.Millisecond, 5 * time.Second
	pause := first
	for {
		var s corev1.PodStatus
		select {
		case <-ctx.Done():
			return
		case s = <-w.inbox:
		}
		for {
			err := w.patch(ctx, s)
			if err == nil {
				pause = first
				w.acked(s)
				break
			}
			if ctx.Err() != nil {
				return
			}
			if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
				w.absent()
				return
			}
			w.failed(err)
			select {
			case <-ctx.Done():
				return
			case s = <-w.inbox:
			case <-time.After(pause):
			}
			pause = min(pause*2, most)
		}
	}
}

func (w *writer) patch(ctx context.Context, s corev1.PodStatus) error {
	data, err := statusPatch(w.uid, s)
	if err != nil {
		return err
	}
	_, err = w.pods.Patch(ctx, w.name, types.StrategicMergePatchType, data, metav1.PatchOptions{}, "status")
	return err
}

// statusPatch is the patch that makes a pod's status the given one, leaving
// conditions of others alone. The UID makes it fail for another pod of the
// same name.
func statusPatch(uid types.UID, s corev1.PodStatus) ([]byte, error) {
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encoding a pod's status: %w", err)
	}
	fields := map[string]any{}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, fmt.Errorf("encoding a pod's status: %w", err)
	}
	// What is empty is left out by Marshal, and must be said to be taken away.
	for _, name := range []string{"reason", "message"} {
		if _, ok := fields[name]; !ok {
			fields[name] = nil
		}
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid}, "status": fields})
}
