package statuswriter

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

// Writer writes one pod's status. It keeps only the newest one, so that a slow API server
// delays statuses but does not make a queue of them.
type Writer struct {
	Pods  corev1client.PodInterface
	Name  string
	UID   types.UID
	inbox chan corev1.PodStatus // of capacity 1
	// Acked is called after each successful write, with the status.
	Acked func(corev1.PodStatus)
	// Absent is called once, after the pod's deletion.
	Absent func()
	// Failed is called with the error of each write that Run retries.
	Failed func(error)
}

// New returns a writer with the fields of w. Run starts it.
func New(w Writer) *Writer {
	w.inbox = make(chan corev1.PodStatus, 1)
	return &w
}

// Put replaces the status to be written. Only one goroutine may call it.
func (w *Writer) Put(s corev1.PodStatus) {
	select {
	case <-w.inbox:
	default:
	}
	w.inbox <- s
}

// Run writes until ctx ends.
func (w *Writer) Run(ctx context.Context) {
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
				w.Acked(s)
				break
			}
			if ctx.Err() != nil {
				return
			}
			if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
				w.Absent()
				return
			}
			w.Failed(err)
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

func (w *Writer) patch(ctx context.Context, s corev1.PodStatus) error {
	data, err := statusPatch(w.UID, s)
	if err != nil {
		return err
	}
	_, err = w.Pods.Patch(ctx, w.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{}, "status")
	return err
}

// statusPatch returns a patch that sets a pod's status, and keeps the conditions of other
// writers. The UID makes the patch fail for another pod of the same name.
func statusPatch(uid types.UID, s corev1.PodStatus) ([]byte, error) {
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encoding a pod's status: %w", err)
	}
	fields := map[string]any{}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, fmt.Errorf("encoding a pod's status: %w", err)
	}
	// Marshal omits empty fields; null in the patch removes their old values.
	for _, name := range []string{"reason", "message"} {
		if _, ok := fields[name]; !ok {
			fields[name] = nil
		}
	}
	// The API server merges addresses by address. A pod whose address changed would have two of one
	// family then, which it refuses, and so every later status of the pod.
	for _, name := range []string{"podIPs", "hostIPs"} {
		if list, ok := fields[name].([]any); ok {
			fields[name] = append([]any{map[string]any{"$patch": "replace"}}, list...)
		}
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid}, "status": fields})
}
