package snapshot

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/allocation"
	"github.com/muster-dev/muster/internal/fencing"
	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/scheduling/estimate"
	"github.com/muster-dev/muster/internal/scheduling/queue"
	"github.com/muster-dev/muster/internal/scheduling/queue/manifest"
	"github.com/muster-dev/muster/internal/snapshot/conversion"
	"github.com/muster-dev/muster/internal/snapshot/dryrun"
)

// world is what the API server showed, before it is turned into a Snapshot.
type world struct {
	nodes []scheduling.Node
	// gpus are the resources that count GPUs.
	gpus       conversion.GPUResources
	gangs      []v1alpha1.Gang
	placements []v1alpha1.Placement
	pods       []corev1.Pod
	// claims are the GPUs that claims of others hold.
	claims []allocation.Holding
	// given are all claims of the namespaces with quotas, and byClaims is true where
	// drivers give GPUs.
	given    []*resourcev1.ResourceClaim
	byClaims bool
	// shared says of each node whether its pods share its ports; nil: nodes say
	// so.
	shared map[string]bool
	// queues are the queues that are configured; paused says who wants nothing
	// new to be started.
	queues []queue.Spec
	paused string
	// quotas are what the namespaces allow, and counted turns a pod into a role
	// as they count it.
	quotas  []corev1.ResourceQuota
	counted func(*corev1.Pod) scheduling.Role
	// priority returns the value of a priority class.
	priority func(class string) int32
	// learn returns the roles of a gang as the API server would make them, or
	// false while that is not known.
	learn func(*v1alpha1.Gang) (dryrun.Answer, bool)
	// mine reports whether an unbound pod is this scheduler's to bind.
	mine func(*corev1.Pod) bool
	// highest is the highest attempt seen of each gang, which its status may
	// not show yet.
	highest map[types.UID]int32
	// tied is true if anything has rules about where others are, here or beside
	// what is shown here.
	tied bool
	// anchors say where the volumes of claims can be used.
	anchors *anchors
	// asked is for how many members of a gang nodes were asked for.
	asked map[types.UID]int32
	// leaving are the placements that were ordered back, which they may not show
	// yet, and their gangs.
	leaving map[types.UID]types.UID
}

// memberOf names a member of a gang's life.
type memberOf struct {
	gang  types.UID
	role  string
	index string
}

// snapshot shows the world to the core at one time.
func (w world) snapshot(now time.Time) scheduling.Snapshot {
	s := scheduling.Snapshot{Now: conversion.Instant(now), Nodes: w.nodes, Queues: w.queues, Paused: w.paused}
	w.tied = w.tied || w.anyTied()
	shared := w.shared
	if shared == nil {
		shared = make(map[string]bool, len(w.nodes))
		for _, n := range w.nodes {
			shared[n.Name] = n.Ports != nil
		}
	}
	gangs := map[types.UID]*v1alpha1.Gang{}
	for i := range w.gangs {
		gangs[w.gangs[i].UID] = &w.gangs[i]
	}
	members := map[memberOf]*corev1.Pod{}
	for i := range w.pods {
		p := &w.pods[i]
		if gang := conversion.GangOf(p); gang != "" {
			members[memberOf{gang, p.Labels[v1alpha1.LabelRole], p.Labels[v1alpha1.LabelIndex]}] = p
		}
		switch {
		case p.Spec.NodeName != "":
			s.Pods = append(s.Pods, w.gpus.Pod(p, shared[p.Spec.NodeName]))
			if w.tied {
				conversion.TiePod(&s.Pods[len(s.Pods)-1], p)
			}
		case w.mine(p):
			s.Requests = append(s.Requests, w.podRequest(p))
		}
	}
	s.Pods = append(s.Pods, heldBy(w.claims)...)
	placed := map[types.UID]bool{}
	for i := range w.placements {
		p := &w.placements[i]
		if g := gangs[p.Spec.GangUID]; g != nil && fencing.Spent(g.Status.Attempt, p.Spec.Attempt, draining(g)) {
			continue // given back, whatever the cache still shows
		}
		placed[p.Spec.GangUID] = true
		s.Placements = append(s.Placements, w.placement(p, gangs[p.Spec.GangUID], members, shared))
	}
	s.Quotas = w.quotasOf(&s, gangs, members)
	for i := range w.gangs {
		if req, ok := w.gangRequest(&w.gangs[i], placed[w.gangs[i].UID]); ok {
			s.Requests = append(s.Requests, req)
		}
	}
	return s
}

// podRequest turns a foreign pod that waits for a node into the core's.
func (w world) podRequest(p *corev1.Pod) scheduling.Request {
	_, unsupported := w.gpus.PodShare(&p.Spec)
	req := scheduling.Request{
		Key: scheduling.Key{Namespace: p.Namespace, Name: p.Name}, UID: string(p.UID), Pod: true, Unsupported: unsupported,
		Priority: ptr.Deref(p.Spec.Priority, 0), Created: conversion.Instant(p.CreationTimestamp.Time),
		Roles: []scheduling.Role{w.gpus.Role("pod", 1, &p.Spec, conversion.Words(p.Annotations[v1alpha1.AnnotationGPUModels]))},
	}
	switch {
	case unsupported != "":
	case p.Spec.SchedulerName != "" && !schedules(p, true):
		req.Unsupported = "spec.schedulerName: no scheduler " + p.Spec.SchedulerName + " runs here, so nothing places this pod; leave the field out, and Muster does"
	case len(p.Spec.ResourceClaims) > 0:
		req.Unsupported = "spec.resourceClaims: Muster gives out devices by its own claims; ask for GPUs in the resources of a container (limits: " + v1alpha1.ResourceGPU + ")"
	case p.Spec.SchedulingGroup != nil:
		req.Unsupported = "spec.schedulingGroup: Muster places pods that name it one by one; submit a TrainingJob for members that start together"
	}
	if r := &req.Roles[0]; r.GPUs > 0 || r.Share != (scheduling.Share{}) {
		if askers := w.gpus.Askers(&p.Spec); len(askers) > 1 {
			r.NoClaims, r.Askers = true, "containers "+strings.Join(askers, ", ")
		}
	}
	req.Roles[0].Volumes = w.anchors.of(p.Namespace, &p.Spec)
	if w.tied {
		req.Roles[0].Labels = p.Labels
		var problem string
		if req.Roles[0].Peers, problem = conversion.Peers(p.Namespace, p.Labels, &p.Spec); problem != "" {
			req.Unsupported = problem
		}
	}
	return req
}

// gangRequest turns a gang into the core's. It is false for a gang that is
// being deleted, or of which too little is known yet.
func (w world) gangRequest(g *v1alpha1.Gang, placed bool) (scheduling.Request, bool) {
	if g.DeletionTimestamp != nil && !placed {
		return scheduling.Request{}, false
	}
	req := scheduling.Request{
		Key: scheduling.Key{Namespace: g.Namespace, Name: g.Name}, UID: string(g.UID),
		Created: conversion.Instant(g.CreationTimestamp.Time), Attempt: g.Status.Attempt,
		Queue: g.Spec.Queue, User: manifest.User(g.Annotations), Evidence: evidence(g), Resumes: g.Spec.Resumable,
		Ran: estimate.Span(g.Status.RanSeconds) * estimate.Second, Evictions: g.Status.Evictions,
		Asked:     w.asked[g.UID],
		Suspended: g.Spec.Suspend, Finished: g.Status.Outcome != "", Draining: draining(g) || w.highest[g.UID] > g.Status.Attempt,
	}
	if g.Status.NotBefore != nil {
		req.NotBefore = conversion.Instant(g.Status.NotBefore.Time)
		if v1alpha1.EndsAttempt(g.Status.Reason) {
			req.LastEnd = g.Status.Message
		}
	}
	for i := range g.Spec.Roles {
		spec := &g.Spec.Roles[i].Template.Spec
		if p := spec.Priority; p != nil {
			req.Priority = max(req.Priority, *p)
		} else {
			req.Priority = max(req.Priority, w.priority(spec.PriorityClassName))
		}
	}
	if placed && !elastic(g) || req.Finished || req.Suspended {
		return req, true
	}
	known, ok := w.learn(g)
	if !ok {
		return req, placed
	}
	if placed {
		growing(&req, g)
	}
	req.Refused, req.Missing = known.Refused, known.Missing
	req.Unsupported, req.Topology = known.Unsupported, conversion.Topology(g.Spec.Topology)
	for i := range g.Spec.Roles {
		if _, _, invalid := conversion.Wants(&g.Spec.Roles[i]); invalid != "" {
			req.Unsupported = "role " + g.Spec.Roles[i].Name + ": " + invalid
		}
	}
	req.Roles = slices.Clone(known.Roles)
	for i := range req.Roles {
		req.Roles[i].Avoid = conversion.Avoided(g)
		if r := roleOf(g, req.Roles[i].Name); r != nil {
			req.Roles[i].Volumes = w.anchors.of(g.Namespace, &r.Template.Spec)
		}
		if !w.tied {
			req.Roles[i].Labels = nil
		}
		for n := range req.Roles[i].Replicas {
			if slices.Contains(g.Status.Done, fmt.Sprintf("%s-%d", req.Roles[i].Name, n)) {
				req.Roles[i].Done = append(req.Roles[i].Done, n)
			}
		}
	}
	return req, true
}

// roleOf is a gang's role of this name, nil if there is none.
func roleOf(g *v1alpha1.Gang, name string) *v1alpha1.GangRole {
	for i := range g.Spec.Roles {
		if g.Spec.Roles[i].Name == name {
			return &g.Spec.Roles[i]
		}
	}
	return nil
}

// draining reports whether an earlier attempt has not been given back yet, as
// the gang's controller recorded it.
func draining(g *v1alpha1.Gang) bool {
	switch g.Status.Phase {
	case "", v1alpha1.GangPending, v1alpha1.GangSuspended:
		return false
	}
	return true
}

// placement turns a Placement into the core's. A member has released what it
// holds once its pod succeeded by itself, or ended in an attempt that is being
// ended; one that failed or was deleted otherwise is started again in the same
// place, and holds it.
func (w world) placement(p *v1alpha1.Placement, g *v1alpha1.Gang, members map[memberOf]*corev1.Pod, shared map[string]bool) scheduling.Placement {
	out := scheduling.Placement{
		Gang: scheduling.Key{Namespace: p.Namespace, Name: p.Spec.Gang}, UID: string(p.Spec.GangUID),
		Attempt: p.Spec.Attempt, Created: conversion.Instant(p.CreationTimestamp.Time),
	}
	if p.Spec.Extends != "" {
		out.Extends, out.Journal = true, string(p.UID)
		out.Leaving = p.DeletionTimestamp != nil || w.leaving[p.UID] != ""
	}
	if g != nil && g.Status.SavedTime != nil {
		out.Saved = conversion.Instant(g.Status.SavedTime.Time)
	}
	over := overFor(g, p)
	resources := map[string]scheduling.Resources{}
	if g != nil {
		for i := range g.Spec.Roles {
			resources[g.Spec.Roles[i].Name], _ = w.gpus.Requests(&g.Spec.Roles[i].Template.Spec)
		}
	}
	for m := range p.Spec.Each() {
		member := memberOf{p.Spec.GangUID, m.Role, fmt.Sprint(m.Index)}
		mp := members[member]
		placed := scheduling.PlacedMember{
			Assignment: scheduling.Assignment{Role: m.Role, Index: m.Index, GPUs: m.GPUs, Share: conversion.PlacedShare(m.Share)},
			Resources:  resources[m.Role],
		}
		if int(m.Node) < len(p.Spec.Nodes) && m.Node >= 0 {
			placed.Node = p.Spec.Nodes[m.Node]
		}
		if shared[placed.Node] {
			placed.Port = m.Port
		}
		switch {
		case mp != nil && !conversion.Ended(mp):
			placed.Resources, _ = w.gpus.Requests(&mp.Spec)
		case mp != nil:
			byItself := mp.Status.Phase == corev1.PodSucceeded && mp.DeletionTimestamp == nil
			placed.Released = over || byItself || slices.Contains(g.Status.Done, m.Role+"-"+member.index)
		case g != nil:
			placed.Released = slices.Contains(g.Status.Done, m.Role+"-"+member.index)
		}
		out.Members = append(out.Members, placed)
	}
	if w.tied {
		conversion.TiePlacement(&out, g)
	}
	return out
}

// anyTied reports that anything in the world has: only then are labels shown to
// the core.
func (w *world) anyTied() bool {
	return slices.ContainsFunc(w.pods, func(p corev1.Pod) bool { return conversion.Tied(&p.Spec) }) ||
		slices.ContainsFunc(w.gangs, func(g v1alpha1.Gang) bool { return conversion.TiedGang(&g) })
}
