package scheduling

import (
	"fmt"
	"slices"
)

// locate puts a node into a rack, and tells the memory of its GPUs, which does
// not change.
func (v *river) locate(n *Node) {
	at := int64(n.Name[len(n.Name)-1] - '0')
	*n = gigabytes(*n, at%3*40)
	if rack := v.rng.IntN(4); rack > 0 {
		n.Domains = Domains{Zone: fmt.Sprint("z", rack/2), Rack: fmt.Sprint("r", rack)}
	}
}

// vary asks for something else than whole GPUs anywhere.
func (v *river) vary(r *Request) {
	role := &r.Roles[0]
	switch v.rng.IntN(8) {
	case 0:
		role.GPUs, role.Share = 0, Share{Milli: 100 + v.rng.Int64N(800)}
	case 1:
		role.GPUs, role.Share = 0, Share{MiB: 1 + v.rng.Int64N(40<<10)}
	case 2:
		anyhow(v.rng, r)
		if !r.Pod && v.rng.IntN(2) == 0 {
			role.Min = 1 + v.rng.Int32N(role.Replicas)
		}
	case 3:
		role.Labels = map[string]string{"app": []string{"a", "b"}[v.rng.IntN(2)]}
		role.Peers = []Peers{{
			Rule: []PeerRule{PeersApart, PeersNear, PeersEven}[v.rng.IntN(3)], Level: []Level{LevelNode, LevelRack}[v.rng.IntN(2)],
			Required: v.rng.IntN(2) == 0, Skew: 1, Others: app([]string{"a", "b"}[v.rng.IntN(2)]), Field: "spec",
		}}
	case 4:
		r.Unsupported = []string{"", "too small"}[v.rng.IntN(2)]
		r.Unsupported = "spec"
	default:
		if !r.Pod {
			role.Min = 1 + v.rng.Int32N(role.Replicas)
		}
	}
}

// allow changes what a namespace allows.
func (v *river) allow() {
	if !v.varied {
		return
	}
	v.quotas, v.s.Quotas = true, nil
	if v.rng.IntN(3) > 0 {
		v.s.Quotas = []Quota{quotaOf("few", QuotaTerm{Resource: "pods", Hard: 4 + v.rng.Int64N(20), Used: v.rng.Int64N(8)})}
	}
}

// finish ends a member of a gang for good.
func (v *river) finish(r *Request) {
	role := r.Roles[0]
	index := v.rng.Int32N(role.Replicas)
	if r.Pod || role.done(index) || int(role.Replicas) == len(role.Done)+1 {
		return
	}
	role.Done = append(slices.Clone(role.Done), index)
	r.Roles = []Role{role}
	v.s.Placements = slices.Clone(v.s.Placements)
	for i := range v.s.Placements {
		p := &v.s.Placements[i]
		for k := range p.Members {
			if p.UID == r.UID && p.Members[k].Index == index {
				p.Members = slices.Clone(p.Members)
				p.Members[k].Released = true
			}
		}
	}
}

// written is the journal's entry of a plan, with what rules are about.
func (v *river) written(plan Plan) Placement {
	p := journal(v.s, plan)
	for _, r := range v.s.Requests {
		if r.UID == plan.UID {
			for i := range p.Members {
				p.Members[i].Labels, p.Members[i].Peers = r.Roles[0].Labels, r.Roles[0].Peers
			}
		}
	}
	return p
}

// resize notes what became of growth, and of orders to give back; some are
// refused.
func (v *river) resize(result Result) {
	for _, g := range result.Growths {
		v.about[g.UID] = true
		if v.rng.IntN(5) == 0 {
			continue
		}
		p := v.written(Plan{Key: g.Key, UID: g.UID, Attempt: g.Attempt, Members: []Assignment{g.Member}})
		v.next++
		p.Extends, p.Journal = true, fmt.Sprintf("journal-%03d", v.next)
		v.s.Placements = append(v.s.Placements, p)
	}
	v.s.Placements = slices.Clone(v.s.Placements)
	for _, b := range result.GiveBacks {
		v.about[b.UID] = true
		for i := range v.s.Placements {
			if p := &v.s.Placements[i]; p.Journal == b.Journal && v.rng.IntN(5) > 0 {
				p.Leaving = true
			}
		}
	}
}
