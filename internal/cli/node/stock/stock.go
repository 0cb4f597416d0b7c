// Package stock reads which nodes there are, whose their GPUs are to give out
// and who has them, for the commands about nodes.
//
// A node's GPUs are Muster's where it names them itself (an inventory), or where
// it is owned: labelled and tainted. It must not know any command.
package stock

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/suggestion"
	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/snapshot"
)

// Node is a node and what is known of its GPUs.
type Node struct {
	// Object is the node itself.
	Object corev1.Node
	// Owned is true where it has Muster's label, Tainted where it keeps others
	// off, and Names where it tells its GPUs itself; Claims where a driver names
	// them, so that Muster picks.
	Owned, Tainted, Names, Claims bool
	// GPUs is how many there are, of which Held are given out by Muster and
	// Others somebody else's.
	GPUs, Held, Others int
	// Model is what they are; several are parted by commas.
	Model string
	// NotReady says why it takes nothing; empty if it does.
	NotReady string
	// Holders are those whom Muster gave GPUs there, namespace/name, sorted.
	Holders []string
}

// Stock is all nodes, in the order of their names.
type Stock struct{ Nodes []Node }

// Read reads the nodes and who holds their GPUs, as they are now.
func Read(ctx context.Context, reader client.Reader) (*Stock, error) {
	objects := &corev1.NodeList{}
	if err := reader.List(ctx, objects); err != nil {
		return nil, fmt.Errorf("listing the nodes: %w", err)
	}
	shown, err := snapshot.Take(ctx, reader, time.Now())
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		shown = scheduling.Snapshot{} // without Muster's kinds, as after a purge, there is no work of Muster
	} else if err != nil {
		return nil, err
	}
	nodes := map[string]*scheduling.Node{}
	for i := range shown.Nodes {
		nodes[shown.Nodes[i].Name] = &shown.Nodes[i]
	}
	ledger := scheduling.NewLedger(shown).Holdings()
	s := &Stock{}
	for i := range objects.Items {
		object := &objects.Items[i]
		n := Node{
			Object: *object, Owned: object.Labels[v1alpha1.LabelOwned] == "true", Tainted: HasTaint(object),
			Names: object.Annotations[v1alpha1.AnnotationInventory] != "",
		}
		if known := nodes[object.Name]; known != nil {
			n.describe(known)
		}
		for k := range ledger {
			if ledger[k].Node == object.Name {
				n.hold(&ledger[k])
			}
		}
		slices.Sort(n.Holders)
		n.Holders = slices.Compact(n.Holders)
		s.Nodes = append(s.Nodes, n)
	}
	slices.SortFunc(s.Nodes, func(a, b Node) int { return strings.Compare(a.Object.Name, b.Object.Name) })
	return s, nil
}

// describe takes over what the scheduler knows of a node.
func (n *Node) describe(known *scheduling.Node) {
	n.NotReady, n.Claims = known.NotReady, known.Claims
	var models []string
	for _, d := range known.Devices {
		models = append(models, d.Model)
	}
	n.GPUs = len(models)
	for _, m := range known.Unowned {
		n.GPUs += m.Count
		models = append(models, m.Model)
	}
	slices.Sort(models)
	n.Model = strings.Join(slices.Compact(models), ",")
}

// hold enters what somebody has of the node's GPUs.
func (n *Node) hold(h *scheduling.Holding) {
	n.Others += int(h.Loose)
	if h.Claim {
		n.Others += len(h.GPUs)
		return
	}
	if len(h.GPUs) > 0 {
		n.Held += len(h.GPUs)
		n.Holders = append(n.Holders, h.String())
	}
}

// HasTaint reports whether a node keeps others off.
func HasTaint(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, isTaint)
}

func isTaint(t corev1.Taint) bool {
	return t.Key == v1alpha1.TaintOwned && t.Effect == corev1.TaintEffectNoSchedule
}

// Find returns the nodes of these names, or says which there are none of.
func (s *Stock) Find(names []string) ([]*Node, error) {
	var out []*Node
	var all []string
	for i := range s.Nodes {
		all = append(all, s.Nodes[i].Object.Name)
	}
	if err := Known(all, names); err != nil {
		return nil, err
	}
	for _, name := range names {
		at := slices.Index(all, name)
		if !slices.ContainsFunc(out, func(n *Node) bool { return n.Object.Name == name }) {
			out = append(out, &s.Nodes[at])
		}
	}
	return out, nil
}

// Known says which of these names none of all nodes has.
func Known(all, names []string) error {
	for _, name := range names {
		if !slices.Contains(all, name) {
			return exit.NotFound("there is no node %s%s", name, cmp.Or(suggestion.Phrase(name, all), "; `muster node list` lists them"))
		}
	}
	return nil
}

// Change changes a node, on top of what it is now.
func Change(ctx context.Context, server client.Client, name string, change func(*corev1.Node)) error {
	for {
		n := &corev1.Node{}
		if err := server.Get(ctx, client.ObjectKey{Name: name}, n); err != nil {
			return fmt.Errorf("reading node %s: %w", name, err)
		}
		before := n.DeepCopy()
		change(n)
		err := server.Patch(ctx, n, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if apierrors.IsConflict(err) && ctx.Err() == nil {
			continue // a kubelet wrote something else meanwhile
		}
		return err
	}
}

// Mark sets or removes the label and the taint of a node, on top of what it is
// now.
//
// The agent is wanted on a node as long as it has either, and on top of that if
// agent is true: without it, what has GPUs by a claim there cannot end.
func Mark(ctx context.Context, server client.Client, name string, label, taint, agent bool) error {
	err := Change(ctx, server, name, func(n *corev1.Node) {
		if n.Labels == nil {
			n.Labels = map[string]string{}
		}
		delete(n.Labels, v1alpha1.LabelOwned)
		if label {
			n.Labels[v1alpha1.LabelOwned] = "true"
		}
		delete(n.Labels, v1alpha1.LabelAgent)
		if label || taint || agent {
			n.Labels[v1alpha1.LabelAgent] = "true"
		}
		n.Spec.Taints = slices.DeleteFunc(slices.Clone(n.Spec.Taints), isTaint)
		if taint {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: v1alpha1.TaintOwned, Effect: corev1.TaintEffectNoSchedule})
		}
	})
	if err != nil {
		return fmt.Errorf("marking node %s: %w", name, err)
	}
	return nil
}

// Complete proposes names of nodes that are not among args.
func Complete(ctx context.Context, f *connection.Factory, args []string) []string {
	var nodes corev1.NodeList
	if !f.Propose(ctx, &nodes) {
		return nil
	}
	var names []string
	for i := range nodes.Items {
		if name := nodes.Items[i].Name; !slices.Contains(args, name) {
			names = append(names, name)
		}
	}
	return names
}
