package scheduling

import (
	"sort"
	"strings"
)

// resourceGPU names GPUs in reasons.
const resourceGPU = "gpu"

// diagnosis gathers what a request that did not fit is compared with.
type diagnosis struct {
	req    *Request
	left   *house
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
	return firstOf(d.severally, d.allowed, d.models, d.gpusEver, d.sharesEver, d.resourcesEver, d.apartEver)
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
		for k := range d.left.rooms {
			n := d.left.rooms[k].node
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
		if !r.wantsGPU() || d.left.sum(r).all > 0 {
			continue
		}
		return NoSuchModel{Models: r.Models, Have: d.have(), Withheld: d.withheld(r), Single: d.single}
	}
	return nil
}

// have lists the models there are.
func (d *diagnosis) have() []ModelCount {
	counts := map[string]int{}
	for i := range d.left.rooms {
		for _, dev := range d.left.rooms[i].node.Devices {
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
		most := d.left.sum(r).most
		if most < int64(r.GPUs) {
			return TooLarge{Resource: resourceGPU, Models: r.Models, Role: r.Name, Need: int64(r.GPUs), Have: most, Withheld: d.withheld(r), Single: d.single}
		}
	}
	for _, g := range d.demands() {
		have := d.left.sum(g.roles[0]).all
		if have < g.need {
			return TooLarge{Resource: resourceGPU, Models: g.roles[0].Models, Need: g.need, Have: have, Withheld: d.withheld(g.roles[0]), Single: d.single}
		}
	}
	return nil
}

// resourcesEver finds more CPU, memory or the like asked for than there is.
func (d *diagnosis) resourcesEver() Reason {
	for i := range d.req.Roles {
		r := &d.req.Roles[i]
		if members(r) == 0 {
			continue
		}
		name, have, fits := "", int64(0), false
		for k := range d.left.rooms {
			n := d.left.rooms[k].node
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
	d.left.count()
	need, have := d.need(), d.left.has
	if short := have.short(need); short != "" {
		return TooLarge{Resource: short, Need: need.amount(short), Have: have.amount(short), Single: d.single}
	}
	return nil
}

// need is the sum of what all members ask for beside GPUs.
func (d *diagnosis) need() Resources {
	var sum Resources
	for i := range d.req.Roles {
		sum = sum.plus(d.req.Roles[i].Resources.times(members(&d.req.Roles[i])))
	}
	return sum
}

// gpusNow finds GPUs that exist and are not free.
func (d *diagnosis) gpusNow() Reason {
	for _, g := range d.demands() {
		r := g.roles[0]
		free := d.left.sum(r).free
		if free >= g.need {
			continue
		}
		told := d.left.tell(r)
		return ShortOfGPUs{
			Need: int(g.need), Models: r.Models, Free: int(free), Single: d.single,
			Holders: told.holders, Foreign: told.foreign, Unhealthy: told.unhealthy, Withheld: d.withheld(r),
		}
	}
	return nil
}

// resourcesNow finds CPU, memory or the like that exists and is not free.
func (d *diagnosis) resourcesNow() Reason {
	d.left.count()
	need, free := d.need(), d.left.left
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
		for k := range d.left.rooms {
			anywhere = anywhere || d.left.rooms[k].hasPorts(fixed)
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
	for i := range d.left.rooms {
		r := &d.left.rooms[i]
		if r.node.Ports == nil {
			return nil
		}
		for p := r.node.Ports.First; p <= r.node.Ports.Last && free < need; p++ {
			if r.ports[p] == 0 {
				free++
			}
		}
		if free >= need {
			return nil
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
	return Scattered{Role: r.Name, GPUs: int(r.GPUs), Models: r.Models, Most: int(d.left.sum(r).mostFree)}
}

// truth is 1 for true.
func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}
