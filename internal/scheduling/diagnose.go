package scheduling

import (
	"cmp"
	"slices"
	"sort"
	"strings"
)

// resourceGPU names GPUs in reasons.
const resourceGPU = "gpu"

// diagnosis gathers what a request that did not fit is compared with.
type diagnosis struct {
	req    *Request
	left   *house
	nodes  []*Node
	single bool
	// name is that of the domain that is looked at; empty: the whole cluster.
	name string
	// all and free are what there is of what is wanted first; see size.
	all, free int64
}

// compare says why a request does not fit: first what could never be, then
// what others hold, then how the rest lies.
func compare(req *Request, left *house) Reason {
	if len(left.rooms) == 0 {
		return NoNodes{}
	}
	d := &diagnosis{req: req, left: left, single: len(left.rooms) == 1}
	for _, r := range left.rooms {
		d.nodes = append(d.nodes, r.node)
	}
	if reason := d.ever(); reason != nil {
		return reason
	}
	if reason := d.within(); reason != nil {
		return reason
	}
	return d.now()
}

// ever finds what keeps the request from running even if nothing else ran, or
// nil.
func (d *diagnosis) ever() Reason {
	return firstOf(d.allowed, d.models, d.gpusEver, d.sharesEver, d.resourcesEver, d.apartEver)
}

// now says what is missing, or how it lies.
func (d *diagnosis) now() Reason {
	return firstOf(d.gpusNow, d.sharesNow, d.resourcesNow, d.ports, d.apartNow, d.scattered)
}

// firstOf is the first reason that one of the checks finds, or nil.
func firstOf(checks ...func() Reason) Reason {
	for _, check := range checks {
		if reason := check(); reason != nil {
			return reason
		}
	}
	return nil
}

// members is how many members of a role are to start together: all that are
// not done, of an elastic role as many of those as its minimum says.
func members(r *Role) int64 {
	undone := int64(r.Replicas) - int64(len(r.Done))
	if r.elastic() {
		return min(int64(r.Min), undone)
	}
	return undone
}

// allowed finds a role that no node takes.
func (d *diagnosis) allowed() Reason {
	for i := range d.req.Roles {
		var refusals []NodeRefusal
		for _, n := range d.nodes {
			why := n.refuses(d.req.Roles[i])
			if why == "" {
				refusals = nil
				break
			}
			refusals = append(refusals, NodeRefusal{Node: n.Name, Why: why})
		}
		if refusals != nil {
			return NoNodeAllows{Role: d.req.Roles[i].Name, Nodes: refusals}
		}
	}
	return nil
}

// models finds a role whose models no node has.
func (d *diagnosis) models() Reason {
	for i := range d.req.Roles {
		r := &d.req.Roles[i]
		if !r.wantsGPU() || d.count(r, func(*room, *Device) bool { return true }) > 0 {
			continue
		}
		return NoSuchModel{Models: r.Models, Have: d.have(), Single: d.single}
	}
	return nil
}

// count counts the devices that would do for a role, on nodes that take it.
func (d *diagnosis) count(r *Role, which func(*room, *Device) bool) int64 {
	var n int64
	for _, room := range d.left.rooms {
		if room.node.refuses(*r) != "" {
			continue
		}
		for i := range room.node.Devices {
			if dev := &room.node.Devices[i]; r.accepts(*dev) && which(room, dev) {
				n++
			}
		}
	}
	return n
}

// have lists the models there are.
func (d *diagnosis) have() []ModelCount {
	counts := map[string]int{}
	for _, n := range d.nodes {
		for _, dev := range n.Devices {
			counts[dev.Model]++
		}
	}
	var out []ModelCount
	for _, model := range sortedKeys(counts) {
		out = append(out, ModelCount{Model: model, Count: counts[model]})
	}
	return out
}

// demand is what roles that accept the same models need together.
type demand struct {
	roles []*Role
	need  int64
}

// demands groups the roles that need GPUs by the models they accept, in the
// order of the roles.
func (d *diagnosis) demands() []*demand {
	byModels := map[string]*demand{}
	var out []*demand
	for i := range d.req.Roles {
		r := &d.req.Roles[i]
		if r.GPUs == 0 || members(r) == 0 {
			continue
		}
		sorted := append([]string{}, r.Models...)
		sort.Strings(sorted)
		key := strings.ToLower(strings.Join(sorted, "\x00"))
		if byModels[key] == nil {
			byModels[key] = &demand{}
			out = append(out, byModels[key])
		}
		byModels[key].roles = append(byModels[key].roles, r)
		byModels[key].need += int64(r.GPUs) * members(r)
	}
	return out
}

// gpusEver finds more GPUs asked for than there are.
func (d *diagnosis) gpusEver() Reason {
	for i := range d.req.Roles {
		r := &d.req.Roles[i]
		if r.GPUs == 0 || members(r) == 0 {
			continue
		}
		most := d.most(r, func(n *Node) []*Device { return pointers(n.Devices) })
		if most < int64(r.GPUs) {
			return TooLarge{Resource: resourceGPU, Models: r.Models, Role: r.Name, Need: int64(r.GPUs), Have: most, Single: d.single}
		}
	}
	for _, g := range d.demands() {
		have := d.count(g.roles[0], func(*room, *Device) bool { return true })
		if have < g.need {
			return TooLarge{Resource: resourceGPU, Models: g.roles[0].Models, Need: g.need, Have: have, Single: d.single}
		}
	}
	return nil
}

func pointers(devices []Device) []*Device {
	out := make([]*Device, len(devices))
	for i := range devices {
		out[i] = &devices[i]
	}
	return out
}

// most is the largest number of devices of one model that will do on one node
// that takes the role.
func (d *diagnosis) most(r *Role, devices func(*Node) []*Device) int64 {
	var most int64
	for _, n := range d.nodes {
		if n.refuses(*r) == "" {
			most = max(most, d.mostOn(r, devices(n)))
		}
	}
	return most
}

// mostOn is how many of the devices are of the one model that will do of which
// there are the most.
func (d *diagnosis) mostOn(r *Role, devices []*Device) (most int64) {
	byModel := map[string]int64{}
	for _, dev := range devices {
		if r.accepts(*dev) {
			model := strings.ToLower(dev.Model)
			byModel[model]++
			most = max(most, byModel[model])
		}
	}
	return most
}

// resourcesEver finds more CPU, memory or the like asked for than there is.
func (d *diagnosis) resourcesEver() Reason {
	for i := range d.req.Roles {
		r := &d.req.Roles[i]
		if members(r) == 0 {
			continue
		}
		name, have, fits := "", int64(0), false
		for _, n := range d.nodes {
			if n.refuses(*r) != "" {
				continue
			}
			short := n.Allocatable.short(r.Resources)
			if short == "" {
				fits = true
				break
			}
			name, have = short, max(have, n.Allocatable.amount(short))
		}
		if !fits {
			return TooLarge{Resource: name, Role: r.Name, Need: r.Resources.amount(name), Have: have, Single: d.single}
		}
	}
	need, have := d.need(), Resources{}
	for _, n := range d.nodes {
		have = have.plus(n.Allocatable)
	}
	if short := have.short(need); short != "" {
		return TooLarge{Resource: short, Need: need.amount(short), Have: have.amount(short), Single: d.single}
	}
	return nil
}

// need is the sum of what all members ask for beside GPUs.
func (d *diagnosis) need() Resources {
	var sum Resources
	for i := range d.req.Roles {
		for range members(&d.req.Roles[i]) {
			sum = sum.plus(d.req.Roles[i].Resources)
		}
	}
	return sum
}

// gpusNow finds GPUs that exist and are not free.
func (d *diagnosis) gpusNow() Reason {
	for _, g := range d.demands() {
		r := g.roles[0]
		free := d.count(r, func(room *room, dev *Device) bool { return dev.usable() && len(room.tenants[dev.UUID]) == 0 })
		if free >= g.need {
			continue
		}
		reason := ShortOfGPUs{Need: int(g.need), Models: r.Models, Free: int(free), Single: d.single}
		d.holders(r, &reason)
		return reason
	}
	return nil
}

// holders fills in who has the devices that would do for a role.
func (d *diagnosis) holders(r *Role, reason *ShortOfGPUs) {
	d.count(r, func(room *room, dev *Device) bool {
		who := room.tenants[dev.UUID]
		switch {
		case len(who) > 0:
			for _, p := range who {
				var h *GPUHolder
				reason.Holders, h = holds(reason.Holders, p)
				h.tenancy(p)
			}
		case len(dev.Foreign) > 0:
			reason.Foreign = append(reason.Foreign, GPUForeign{UUID: dev.UUID, Process: dev.Foreign[0]})
		case dev.Unhealthy != "":
			reason.Unhealthy = append(reason.Unhealthy, GPUUnhealthy{UUID: dev.UUID, Why: dev.Unhealthy})
		}
		return true
	})
	slices.SortFunc(reason.Holders, func(a, b GPUHolder) int {
		return cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), truth(a.Pod)-truth(b.Pod))
	})
	sort.Slice(reason.Foreign, func(i, j int) bool { return reason.Foreign[i].UUID < reason.Foreign[j].UUID })
	sort.Slice(reason.Unhealthy, func(i, j int) bool { return reason.Unhealthy[i].UUID < reason.Unhealthy[j].UUID })
}

// resourcesNow finds CPU, memory or the like that exists and is not free.
func (d *diagnosis) resourcesNow() Reason {
	need, free := d.need(), Resources{}
	for _, r := range d.left.rooms {
		free = free.plus(r.free)
	}
	short := free.short(need)
	if short == "" {
		return nil
	}
	amounts := map[string]int64{}
	keys := map[string]Key{}
	for _, h := range d.left.tenants {
		if amount := h.resources.amount(short); amount > 0 {
			amounts[h.String()] += amount
			keys[h.String()] = h.Key
		}
	}
	names := sortedKeys(amounts)
	sort.SliceStable(names, func(i, j int) bool { return amounts[names[i]] > amounts[names[j]] })
	reason := ShortOfResource{Resource: short, Need: need.amount(short), Free: free.amount(short), Single: d.single}
	for _, name := range names {
		reason.Holders = append(reason.Holders, keys[name])
	}
	return reason
}

// ports finds ports that are missing.
func (d *diagnosis) ports() Reason {
	for i := range d.req.Roles {
		fixed := d.req.Roles[i].FixedPorts
		if len(fixed) == 0 {
			continue
		}
		anywhere := false
		for _, r := range d.left.rooms {
			anywhere = anywhere || r.hasPorts(fixed)
		}
		if !anywhere {
			return ShortOfPorts{Fixed: fixed}
		}
	}
	if d.req.Pod {
		return nil
	}
	var need, free int
	for i := range d.req.Roles {
		if r := &d.req.Roles[i]; r.elastic() {
			need += int(members(r))
		} else {
			need += int(r.Replicas)
		}
	}
	for _, r := range d.left.rooms {
		if r.node.Ports == nil {
			return nil
		}
		for p := r.node.Ports.First; p <= r.node.Ports.Last; p++ {
			if !r.ports[p] {
				free++
			}
		}
	}
	if free < need {
		return ShortOfPorts{Need: need, Free: free}
	}
	return nil
}

// scattered is what is left: enough in all, but not where it is needed. It
// names the role with the largest members.
func (d *diagnosis) scattered() Reason {
	r := &d.req.Roles[largestFirst(d.req)[0]]
	free := map[string][]*Device{}
	for _, room := range d.left.rooms {
		free[room.node.Name] = room.gpus
	}
	most := d.most(r, func(n *Node) []*Device { return free[n.Name] })
	return Scattered{Role: r.Name, GPUs: int(r.GPUs), Models: r.Models, Most: int(most)}
}

// truth is 1 for true.
func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}
