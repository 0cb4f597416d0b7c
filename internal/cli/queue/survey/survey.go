// Package survey reads how queues stand: the objects, the work that names them,
// and the tree of both, computed by the package that decides with it.
//
// It must not know any command.
package survey

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/scheduling/queue"
	"github.com/muster-dev/muster/internal/scheduling/queue/manifest"
	"github.com/muster-dev/muster/internal/snapshot"
)

// Survey is how queues stand.
type Survey struct {
	// Objects are the Queue objects, by name. The default queue is among them
	// only if somebody made it.
	Objects []v1alpha1.Queue
	// Tree holds all queues, with what running work holds charged to them.
	Tree *queue.Tree
	// Problems are what in the queues cannot be honoured.
	Problems []queue.Problem
	// Work is all that runs or waits, in the order of queue and name.
	Work []Work
	// Models are the GPU models that the nodes have.
	Models []string

	nodes []corev1.Node
}

// Work is one gang that has not ended.
type Work struct {
	// Name is namespace/name.
	Name string
	// Queue is the queue's name.
	Queue string
	// User is whom it is charged to, as far as is known.
	User string
	// Holds is true if it holds what it asks for; else it waits.
	Holds bool
	// Ask is what it asks for, or holds.
	Ask queue.Vector

	gang v1alpha1.Gang
}

// Overcommitted says by how much, "4 gpu", the queues of a tree that is to come
// are guaranteed more than all nodes have, of the classes that are named and
// where it is more than it is now.
func (s *Survey) Overcommitted(tree *queue.Tree, named v1alpha1.ResourceAmounts) []string {
	classes := tree.Classes()
	tree.SetCapacity(capacity(classes, s.nodes))
	var out []string
	for c := range queue.Class(classes.Len()) {
		over, before := tree.Overcommitted(c), int64(0)
		if now, known := s.Tree.Classes().Find(classes.Name(c)); known {
			before = s.Tree.Overcommitted(now)
		}
		_, given := named[classes.Name(c)]
		if given && over > before {
			out = append(out, classes.Format(c, over)+" "+classes.Name(c))
		}
	}
	return out
}

// Read looks at queues, work and nodes.
func Read(ctx context.Context, reader client.Reader) (*Survey, error) {
	var queues v1alpha1.QueueList
	var gangs v1alpha1.GangList
	var placements v1alpha1.PlacementList
	nodes, err := snapshot.Nodes(ctx, reader)
	if err != nil {
		return nil, err
	}
	for _, one := range []struct {
		what string
		list client.ObjectList
	}{{"queues", &queues}, {"gangs", &gangs}, {"placements", &placements}} {
		if err := reader.List(ctx, one.list); err != nil {
			return nil, fmt.Errorf("listing the %s: %w", one.what, err)
		}
	}
	s := &Survey{Objects: queues.Items, nodes: nodes}
	slices.SortFunc(s.Objects, func(a, b v1alpha1.Queue) int { return strings.Compare(a.Name, b.Name) })
	models := inventory(nodes)
	for _, model := range models {
		s.Models = append(s.Models, model)
	}
	slices.Sort(s.Models)
	s.Models = slices.Compact(s.Models)
	s.gather(gangs.Items)
	s.Tree, s.Problems = queue.Build(append(manifest.Specs(s.Objects), s.gone()...), queue.Options{Models: s.Models})
	s.Tree.Advance(time.Now().UnixNano())
	s.Tree.SetCapacity(capacity(s.Tree.Classes(), nodes))
	s.charge(placements.Items, models)
	return s, nil
}

// place is one GPU: those that are only counted have the same names on every
// node.
type place struct{ node, uuid string }

// inventory returns the model of every GPU.
func inventory(nodes []corev1.Node) map[place]string {
	models := map[place]string{}
	for i := range nodes {
		for _, gpu := range devices(&nodes[i]) {
			models[place{nodes[i].Name, gpu.UUID}] = gpu.Model
		}
	}
	return models
}

func devices(node *corev1.Node) []v1alpha1.GPUDevice {
	var read v1alpha1.NodeInventory
	if json.Unmarshal([]byte(node.Annotations[v1alpha1.AnnotationInventory]), &read) != nil {
		return nil
	}
	return read.GPUs
}

// capacity is what all nodes have.
func capacity(classes *queue.Classes, nodes []corev1.Node) queue.Vector {
	sum := classes.Zero()
	for i := range nodes {
		allocatable := nodes[i].Status.Allocatable
		sum[queue.CPU] += allocatable.Cpu().MilliValue()
		sum[queue.Memory] += allocatable.Memory().Value()
		for _, gpu := range devices(&nodes[i]) {
			classes.AddGPUs(sum, gpu.Model, 1000)
		}
	}
	return sum
}

// gather finds the work that has not ended.
func (s *Survey) gather(gangs []v1alpha1.Gang) {
	for i := range gangs {
		gang := &gangs[i]
		work := Work{Name: gang.Namespace + "/" + gang.Name, Queue: cmp.Or(gang.Spec.Queue, queue.Default), User: manifest.User(gang.Annotations), gang: *gang}
		switch gang.Status.Phase {
		case v1alpha1.GangSucceeded, v1alpha1.GangFailed, v1alpha1.GangSuspended:
			continue
		case v1alpha1.GangPlanned, v1alpha1.GangStarting, v1alpha1.GangRunning, v1alpha1.GangDraining:
			work.Holds = true
		}
		if !work.Holds && gang.Spec.Suspend {
			continue
		}
		s.Work = append(s.Work, work)
	}
	slices.SortFunc(s.Work, func(a, b Work) int {
		return cmp.Or(strings.Compare(a.Queue, b.Queue), strings.Compare(a.Name, b.Name))
	})
}

// gone are the queues that work names and that do not exist.
func (s *Survey) gone() []queue.Spec {
	var specs []queue.Spec
	for _, work := range s.Work {
		exists := slices.ContainsFunc(s.Objects, func(o v1alpha1.Queue) bool { return o.Name == work.Queue })
		if exists || work.Queue == queue.Default || len(specs) > 0 && specs[len(specs)-1].Name == work.Queue {
			continue
		}
		specs = append(specs, queue.Spec{Name: work.Queue, Gone: true})
	}
	return specs
}

// charge measures all work and charges what holds something.
func (s *Survey) charge(placements []v1alpha1.Placement, models map[place]string) {
	journal := map[string]*v1alpha1.Placement{}
	for i := range placements {
		p := &placements[i]
		key := p.Namespace + "/" + p.Spec.Gang
		if have := journal[key]; have == nil || have.Spec.Attempt < p.Spec.Attempt {
			journal[key] = p
		}
	}
	for i := range s.Work {
		work := &s.Work[i]
		p := journal[work.Name]
		if work.Holds && p != nil && p.Spec.GangUID == work.gang.UID {
			work.Ask = s.placed(&work.gang, p, models)
		} else {
			work.Ask = s.asked(&work.gang)
		}
		if q, ok := s.Tree.Find(work.Queue); ok && work.Holds {
			s.Tree.Charge(q, s.Tree.User(work.User), work.Ask)
		}
	}
}

// asked is what all members of a gang together want.
func (s *Survey) asked(gang *v1alpha1.Gang) queue.Vector {
	ask := s.Tree.Classes().Zero()
	for i := range gang.Spec.Roles {
		role := &gang.Spec.Roles[i]
		members := int64(role.Replicas) - done(gang, role.Name)
		if role.GPUs != nil {
			model := ""
			if len(role.GPUModels) == 1 {
				model = role.GPUModels[0]
			}
			s.Tree.Classes().AddGPUs(ask, model, members*role.GPUs.MilliValue())
		}
		addRequests(ask, role, members)
	}
	return ask
}

// placed is what the members of a gang hold.
func (s *Survey) placed(gang *v1alpha1.Gang, p *v1alpha1.Placement, models map[place]string) queue.Vector {
	held := s.Tree.Classes().Zero()
	for m := range p.Spec.Each() {
		if slices.Contains(gang.Status.Done, fmt.Sprintf("%s-%d", m.Role, m.Index)) {
			continue
		}
		node := "" // of a journal that cannot be read
		if m.Node >= 0 && int(m.Node) < len(p.Spec.Nodes) {
			node = p.Spec.Nodes[m.Node]
		}
		milli := int64(1000)
		if m.Share != nil {
			milli = int64(m.Share.Milli)
		}
		for _, uuid := range m.GPUs {
			s.Tree.Classes().AddGPUs(held, models[place{node, uuid}], milli)
		}
	}
	for i := range gang.Spec.Roles {
		role := &gang.Spec.Roles[i]
		addRequests(held, role, int64(role.Replicas)-done(gang, role.Name))
	}
	return held
}

// done counts the members of a role that ended for good.
func done(gang *v1alpha1.Gang, role string) int64 {
	var count int64
	for _, name := range gang.Status.Done {
		if cut := strings.LastIndexByte(name, '-'); cut > 0 && name[:cut] == role {
			count++
		}
	}
	return count
}

func addRequests(sum queue.Vector, role *v1alpha1.GangRole, members int64) {
	for i := range role.Template.Spec.Containers {
		requests := role.Template.Spec.Containers[i].Resources.Requests
		sum[queue.CPU] += members * requests.Cpu().MilliValue()
		sum[queue.Memory] += members * requests.Memory().Value()
	}
}

// Count is how much work a queue has, with all queues below it.
func (s *Survey) Count(q queue.Queue) (running, waiting int) {
	for _, work := range s.Work {
		at, ok := s.Tree.Find(work.Queue)
		for ok && at != q && at != queue.Root {
			at = s.Tree.Parent(at)
		}
		switch {
		case !ok || at != q:
		case work.Holds:
			running++
		default:
			waiting++
		}
	}
	return running, waiting
}

// Object returns the queue's object; nil for one that is implied or deleted.
func (s *Survey) Object(name string) *v1alpha1.Queue {
	for i := range s.Objects {
		if s.Objects[i].Name == name {
			return &s.Objects[i]
		}
	}
	return nil
}

// Names lists the queues that exist, the default one among them.
func (s *Survey) Names() []string { return Named(s.Objects) }

// Missing is the error for a queue that does not exist.
func (s *Survey) Missing(name string) error { return Missing(name, s.Objects) }

// Of lists the problems of one queue.
func (s *Survey) Of(name string) []queue.Problem {
	var out []queue.Problem
	for _, p := range s.Problems {
		if p.Queue == name {
			out = append(out, p)
		}
	}
	return out
}

// Amounts writes what there is of each class, "gpu=8,A100=4,cpu=64", GPUs
// first; "-" for nothing. Classes for which show is false are left out; a nil
// show shows all.
func Amounts(classes *queue.Classes, amount func(queue.Class) int64, show func(queue.Class) bool) string {
	var parts []string
	for k := range classes.Len() {
		// GPU, then models, then CPU and memory.
		c := queue.Class((k + int(queue.GPU)) % classes.Len())
		if have := amount(c); have != 0 && (show == nil || show(c)) {
			parts = append(parts, classes.Name(c)+"="+classes.Format(c, have))
		}
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, ",")
}
