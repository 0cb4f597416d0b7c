package scheduling

import (
	"maps"
	"slices"
)

// same reports that nothing of what a node is has changed.
func (n *Node) same(o *Node) bool {
	return n.Name == o.Name && maps.Equal(n.Labels, o.Labels) && slices.Equal(n.Taints, o.Taints) &&
		n.Unschedulable == o.Unschedulable && n.Domains == o.Domains && n.NotReady == o.NotReady && n.Allocatable.same(o.Allocatable) &&
		(n.Ports == nil) == (o.Ports == nil) && (n.Ports == nil || *n.Ports == *o.Ports) &&
		slices.EqualFunc(n.Devices, o.Devices, Device.same) && n.Counts == o.Counts && n.Whole == o.Whole && n.Claims == o.Claims && slices.Equal(n.Unowned, o.Unowned)
}

func (d Device) same(o Device) bool {
	return d.UUID == o.UUID && d.Index == o.Index && d.Model == o.Model && d.MemoryMiB == o.MemoryMiB && d.Unhealthy == o.Unhealthy && slices.Equal(d.Foreign, o.Foreign)
}

func (r Resources) same(o Resources) bool {
	return r.MilliCPU == o.MilliCPU && r.Memory == o.Memory && r.Pods == o.Pods && maps.Equal(r.Other, o.Other)
}

// same reports that nothing of what a request is has changed.
func (r *Request) same(o *Request) bool {
	return r.Key == o.Key && r.UID == o.UID && r.Pod == o.Pod && r.Priority == o.Priority && r.Created == o.Created &&
		r.Attempt == o.Attempt && r.Suspended == o.Suspended && r.Draining == o.Draining && r.Finished == o.Finished &&
		r.NotBefore == o.NotBefore && r.Refused == o.Refused && r.Missing == o.Missing && r.LastEnd == o.LastEnd && r.Unsupported == o.Unsupported && r.Queue == o.Queue && r.User == o.User &&
		slices.Equal(r.Evidence.Like, o.Evidence.Like) && r.Evidence.Declared == o.Evidence.Declared && r.Evidence.Limit == o.Evidence.Limit &&
		slices.Equal(r.Evidence.Reports, o.Evidence.Reports) &&
		r.Ran == o.Ran && r.Resumes == o.Resumes && r.Evictions == o.Evictions && r.Topology == o.Topology && r.Grows == o.Grows && r.Asked == o.Asked && slices.EqualFunc(r.Roles, o.Roles, Role.same)
}

func (r Role) same(o Role) bool {
	return r.Name == o.Name && r.Replicas == o.Replicas && r.Min == o.Min && slices.Equal(r.Done, o.Done) && r.GPUs == o.GPUs && r.Share == o.Share && r.NoClaims == o.NoClaims && r.Askers == o.Askers &&
		slices.Equal(r.Models, o.Models) && r.Resources.same(o.Resources) && slices.Equal(r.FixedPorts, o.FixedPorts) &&
		maps.Equal(r.NodeLabels, o.NodeLabels) && slices.EqualFunc(r.NodeTerms, o.NodeTerms, sameTerm) && slices.EqualFunc(r.Volumes, o.Volumes, Volume.same) && slices.Equal(r.Tolerations, o.Tolerations) &&
		slices.Equal(r.Avoid, o.Avoid) &&
		r.Counted.same(o.Counted) &&
		r.Spread == o.Spread && slices.EqualFunc(r.Prefers, o.Prefers, func(x, y Preference) bool { return x.Weight == y.Weight && sameTerm(x.Term, y.Term) }) &&
		maps.Equal(r.Labels, o.Labels) && slices.EqualFunc(r.Peers, o.Peers, Peers.same)
}

func (v Volume) same(o Volume) bool {
	return v.Claim == o.Claim && slices.EqualFunc(v.Terms, o.Terms, sameTerm)
}

func (c Counted) same(o Counted) bool {
	return c.Limits.same(o.Limits) && c.Terminating == o.Terminating && c.BestEffort == o.BestEffort && c.PriorityClass == o.PriorityClass
}

func sameTerm(a, b []Expression) bool {
	return slices.EqualFunc(a, b, func(x, y Expression) bool {
		return x.Key == y.Key && x.Operator == y.Operator && x.Field == y.Field && slices.Equal(x.Values, y.Values)
	})
}

func (h Holding) same(o Holding) bool {
	return h.Key == o.Key && h.Pod == o.Pod && h.Claim == o.Claim && h.Role == o.Role && h.Index == o.Index && h.Node == o.Node && h.Since == o.Since &&
		slices.Equal(h.GPUs, o.GPUs) && h.Share == o.Share && h.Loose == o.Loose && slices.Equal(h.Ports, o.Ports) && h.Resources.same(o.Resources) &&
		maps.Equal(h.Labels, o.Labels) && slices.EqualFunc(h.Peers, o.Peers, Peers.same) && h.uid == o.uid &&
		h.Extra == o.Extra && h.Leaving == o.Leaving && h.journal == o.journal
}

func (p Peers) same(o Peers) bool {
	return p.Rule == o.Rule && p.Level == o.Level && p.Required == o.Required && p.Skew == o.Skew && p.Field == o.Field &&
		slices.Equal(p.Others.Namespaces, o.Others.Namespaces) && p.Others.Everywhere == o.Others.Everywhere && sameTerm(p.Others.Terms, o.Others.Terms)
}
