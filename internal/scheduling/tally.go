package scheduling

import (
	"cmp"
	"slices"
	"sort"
	"strings"
)

// sum is what was counted of the devices that would do for roles of one kind:
// on nodes that take them, of models that they accept.
type sum struct {
	// all and free count them; most and mostFree are the largest numbers of one
	// model on one node.
	all, free, most, mostFree int64
	// told is true once who has them was collected.
	told      bool
	holders   []GPUHolder
	foreign   []GPUForeign
	unhealthy []GPUUnhealthy
}

// sum counts the devices that would do for a role, once for all roles of its
// kind.
func (h *house) sum(r *Role) *sum {
	key := ruleName(r) + "\x00" + strings.ToLower(strings.Join(r.Models, "\x00"))
	if s := h.sums[key]; s != nil {
		return s
	}
	s := &sum{}
	if h.sums == nil {
		h.sums = map[string]*sum{}
	}
	h.sums[key] = s
	for i := range h.rooms {
		if room := &h.rooms[i]; room.node.refuses(*r) == "" {
			s.add(room, r)
		}
	}
	return s
}

// each goes through the devices that would do for a role, by their places among
// those of their node.
func (h *house) each(r *Role, do func(room *room, device int)) {
	for i := range h.rooms {
		room := &h.rooms[i]
		if room.node.refuses(*r) != "" {
			continue
		}
		for d := range room.node.Devices {
			if r.accepts(room.node.Devices[d]) {
				do(room, d)
			}
		}
	}
}

// add counts the devices of one node.
func (s *sum) add(room *room, r *Role) {
	devices := room.node.Devices
	for i := range devices {
		if !r.accepts(devices[i]) {
			continue
		}
		s.all++
		if room.isFree(i) {
			s.free++
		}
	}
	all, free := room.most(r)
	s.most, s.mostFree = max(s.most, all), max(s.mostFree, free)
}

// most is how many devices of the node are of the one model that will do of
// which there are the most, and how many of the one of which the most are free.
func (r *room) most(role *Role) (most, mostFree int64) {
	devices := r.node.Devices
	for i := range devices {
		// The first of its model on the node counts for all of them.
		if !role.accepts(devices[i]) || slices.ContainsFunc(devices[:i], func(d Device) bool { return d.is(devices[i].Model) }) {
			continue
		}
		var all, free int64
		for k := i; k < len(devices); k++ {
			if devices[k].is(devices[i].Model) {
				all++
				if r.isFree(k) {
					free++
				}
			}
		}
		most, mostFree = max(most, all), max(mostFree, free)
	}
	return most, mostFree
}

// tell collects who has the devices that would do for a role, the longest
// first.
func (h *house) tell(r *Role) *sum {
	s := h.sum(r)
	if s.told {
		return s
	}
	s.told = true
	type name struct {
		Key
		pod, claim bool
	}
	at := map[name]int{}
	var last *tenant
	row := 0
	h.each(r, func(room *room, d int) {
		dev, who := &room.node.Devices[d], room.tenants[d]
		for _, p := range who {
			if p.tenant != last {
				have, known := at[name{p.Key, p.pod, p.claim}]
				if row = have; !known {
					row = len(s.holders)
					at[name{p.Key, p.pod, p.claim}] = row
					s.holders = append(s.holders, GPUHolder{Key: p.Key, Pod: p.pod, Claim: p.claim, Since: p.since})
				}
				last = p.tenant
			}
			s.holders[row].tenancy(p)
		}
		switch {
		case len(who) > 0:
		case len(dev.Foreign) > 0:
			s.foreign = append(s.foreign, GPUForeign{UUID: dev.UUID, Process: dev.Foreign[0]})
		case dev.Unhealthy != "":
			s.unhealthy = append(s.unhealthy, GPUUnhealthy{UUID: dev.UUID, Why: dev.Unhealthy})
		}
	})
	slices.SortFunc(s.holders, func(a, b GPUHolder) int {
		return cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), truth(a.Pod)-truth(b.Pod))
	})
	sort.Slice(s.foreign, func(i, j int) bool { return s.foreign[i].UUID < s.foreign[j].UUID })
	sort.Slice(s.unhealthy, func(i, j int) bool { return s.unhealthy[i].UUID < s.unhealthy[j].UUID })
	return s
}
