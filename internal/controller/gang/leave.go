package gang

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/departure"
	"github.com/muster-dev/muster/internal/startup"
)

// stands is how a node is for the gang's members.
type stands struct {
	// there is false for a node that is no more.
	there bool
	// leaves is true for one that is about to go.
	leaves bool
	departure.Departure
	// silent is true for a node that does not answer.
	silent  bool
	silence departure.Silence
}

// leave ends the attempt for the sake of a node that is about to go, or that put
// a member out already: what is torn is torn as a whole, with notice, and planned
// anew elsewhere. It returns true if the attempt ends with it.
//
// Nothing failed: there is no back-off, and what is away by it does not count
// against the job's time.
func (o observed) leave(s *v1alpha1.GangStatus) bool {
	node, why := o.forcedOut(s)
	if node == "" {
		return false
	}
	done := s.Done
	o.stop(s, v1alpha1.ReasonNodeLeaves, 0, "its node %s %s; it is started again when there is room elsewhere", node, why)
	s.Done = done
	if s.EvictedFrom = "its node " + node + " " + why; len(s.EvictedFrom) > maxWhy {
		s.EvictedFrom = strings.ToValidUTF8(s.EvictedFrom[:maxWhy], "")
	}
	if s.EvictedTime == nil {
		s.EvictedTime = &metav1.MicroTime{Time: o.now}
	}
	return true
}

// forcedOut is a node of the attempt that is about to go, is gone or put a member
// out, and why; empty if all may stay. Replicas that an elastic gang can do
// without are given back one by one instead: see staying.
func (o observed) forcedOut(s *v1alpha1.GangStatus) (node, why string) {
	alive := map[string]*corev1.Pod{}
	for _, p := range o.pods {
		if attemptOf(p) == s.Attempt {
			alive[nameOf(p)] = p
		}
	}
	for m := range o.placement.Spec.Each() {
		name := memberName(m.Role, m.Index)
		if m.Node < 0 || int(m.Node) >= len(o.placement.Spec.Nodes) || slices.Contains(s.Done, name) {
			continue
		}
		p, on := alive[name], o.placement.Spec.Nodes[m.Node]
		if p != nil && p.Status.Phase == corev1.PodSucceeded {
			continue
		}
		if at := o.node(on); at.leaves {
			return on, at.Why
		} else if !at.there && p != nil {
			return on, "is gone"
		}
	}
	for _, p := range slices.Concat(o.pods, o.gone) {
		if attemptOf(p) == s.Attempt && startup.Disrupted(p) && p.Annotations[v1alpha1.AnnotationExtension] == "" && !slices.Contains(s.Done, nameOf(p)) {
			return p.Spec.NodeName, "put " + called(o.gang, nameOf(p)) + " out" + startup.DisruptionWords(p)
		}
	}
	return "", ""
}

// notices returns for how many seconds each pod may go on once it is told to
// stop; nil: as long as it says itself.
func (o observed) notices() func(*corev1.Pod) *int64 {
	type leaves struct {
		node string
		departure.Departure
	}
	var at []leaves
	for _, name := range o.nodes() {
		if n := o.node(name); n.leaves {
			at = append(at, leaves{name, n.Departure})
		}
	}
	return func(p *corev1.Pod) *int64 {
		own := corev1.DefaultTerminationGracePeriodSeconds * time.Second
		if p.Spec.TerminationGracePeriodSeconds != nil {
			own = time.Duration(*p.Spec.TerminationGracePeriodSeconds) * time.Second
		}
		given := own
		for _, d := range at {
			if d.Notice > 0 {
				given = d.Notice
			}
		}
		for _, d := range at {
			if d.Within > 0 && d.node == p.Spec.NodeName {
				given = min(given, d.Within)
			}
		}
		if given == own {
			return nil
		}
		seconds := max(1, int64(given/time.Second))
		return &seconds
	}
}

// nodes are those of the attempt and of what extends it, each once.
func (o observed) nodes() []string {
	var out []string
	if o.placement != nil {
		out = append(out, o.placement.Spec.Nodes...)
	}
	for _, p := range o.extensions {
		out = append(out, p.Spec.Nodes...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// standing is how a node is. It is asked for every member whenever a gang is
// looked at, and nearly all nodes stay: those that the watch has shown to stay are
// not looked up.
func (c *Controller) standing(ctx context.Context, name string) stands {
	if c.watched.stays(name) {
		return stands{there: true}
	}
	n := c.node(ctx, name)
	if n == nil {
		return stands{}
	}
	out := stands{there: true}
	out.Departure, out.leaves = c.options.Signs.Of(n)
	out.silence, out.silent = departure.Silent(n)
	return out
}

// watched are the nodes that the watch has shown and that stay.
type watched struct {
	mu    sync.RWMutex
	nodes map[string]bool
}

func (w *watched) stays(name string) bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.nodes[name]
}

// set notes whether a node is there and stays.
func (w *watched) set(name string, stays bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !stays {
		delete(w.nodes, name)
		return
	}
	if w.nodes == nil {
		w.nodes = map[string]bool{}
	}
	w.nodes[name] = true
}

// onNodes looks at the gangs of a node when it is to go, or is gone.
func (c *Controller) onNodes() handler.Funcs {
	signs := c.options.Signs
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			if n, ok := e.Object.(*corev1.Node); ok {
				_, leaves := signs.Of(n)
				_, silent := departure.Silent(n)
				if c.watched.set(n.Name, !leaves && !silent); leaves || silent {
					c.enqueueOf(ctx, q, n.Name)
				}
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			old, ok := e.ObjectOld.(*corev1.Node)
			node, too := e.ObjectNew.(*corev1.Node)
			if !ok || !too {
				return
			}
			was, left := signs.Of(old)
			is, leaves := signs.Of(node)
			before, wasSilent := departure.Silent(old)
			now, silent := departure.Silent(node)
			c.watched.set(node.Name, !leaves && !silent)
			if leaves && (!left || was != is) || silent != wasSilent || before != now {
				c.enqueueOf(ctx, q, node.Name)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			c.watched.set(e.Object.GetName(), false)
			c.enqueueOf(ctx, q, e.Object.GetName())
		},
	}
}

// enqueueOf looks at every gang that has a place on a node.
func (c *Controller) enqueueOf(ctx context.Context, q queue, node string) {
	placements := &v1alpha1.PlacementList{}
	if err := c.options.Client.List(ctx, placements, client.UnsafeDisableDeepCopy); err != nil {
		return // the cache is stopping
	}
	for i := range placements.Items {
		if p := &placements.Items[i]; slices.Contains(p.Spec.Nodes, node) {
			q.Add(reconcile.Request{NamespacedName: client.ObjectKey{Namespace: p.Namespace, Name: p.Spec.Gang}})
		}
	}
}
