package door

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data"
)

// readers remembers which nodes may read the data of which namespaces: a fetch is
// thousands of requests.
type readers struct {
	pods client.Reader
	now  func() time.Time

	mu    sync.Mutex
	until map[client.ObjectKey]time.Time // by namespace, and node as the name
}

// readersTrust is for how long a node may read on after its pod was seen.
const readersTrust = 10 * time.Second

func newReaders(o Options) *readers {
	return &readers{pods: o.Pods, now: o.Now, until: map[client.ObjectKey]time.Time{}}
}

// mayReadObject says whether a caller may read objects of a kind of a namespace: who
// speaks for it may, and of packs and commits the agent of a node on which a pod of
// it names data, or that has an order for some.
func (d *Door) mayReadObject(ctx context.Context, w http.ResponseWriter, caller Caller, namespace string, kind data.Kind) error {
	if caller.Node == "" {
		return caller.speaksFor(namespace)
	}
	if kind != data.PackObject && kind != data.CommitObject {
		return refuse(http.StatusForbidden, "agents of nodes read packs and commits, and nothing else")
	}
	ordered, ours := false, true
	if d.opts.Orders != nil {
		ordered, ours = d.opts.Orders.May(caller.Node, namespace)
	}
	if ordered {
		return nil
	}
	err := d.readers.check(ctx, caller.Node, namespace)
	if err != nil && !ours {
		w.Header().Set("Connection", "close") // another replica may know of an order
	}
	return err
}

func (r *readers) check(ctx context.Context, node, namespace string) error {
	key, now := client.ObjectKey{Namespace: namespace, Name: node}, r.now()
	r.mu.Lock()
	known := now.Before(r.until[key])
	r.mu.Unlock()
	if known {
		return nil
	}
	var pods corev1.PodList
	if err := r.pods.List(ctx, &pods, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("looking for the pod that reads data: %w", err)
	}
	for i := range pods.Items {
		if pods.Items[i].Spec.NodeName == node && readsData(&pods.Items[i]) {
			r.note(key, now)
			return nil
		}
	}
	return &Refusal{
		Status: http.StatusForbidden, RetryAfter: time.Second,
		Text: fmt.Sprintf("no pod of namespace %s on node %s reads data", namespace, node),
	}
}

// note lets a node in for a while.
func (r *readers) note(key client.ObjectKey, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.until) >= remembered {
		clear(r.until)
	}
	r.until[key] = now.Add(readersTrust)
}

// readsData reports whether a pod names data, and still runs or will.
func readsData(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return false
	}
	for i := range pod.Spec.Volumes {
		if csi := pod.Spec.Volumes[i].CSI; csi != nil && csi.Driver == v1alpha1.DataDriver {
			return true
		}
	}
	return false
}
