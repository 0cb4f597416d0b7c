package scheduling

import (
	"slices"

	"github.com/muster-dev/muster/internal/scheduling/placement"
)

// PeerRule is a kind of rule about others.
type PeerRule string

// The rules.
const (
	// PeersApart: not in a domain in which one of the others is.
	PeersApart PeerRule = "Apart"
	// PeersNear: in a domain in which one of the others is; the first of those
	// who ask for one another goes anywhere.
	PeersNear PeerRule = "Near"
	// PeersEven: in no domain in which, with it, there would be more than Skew
	// of the others beyond those in the domain with the fewest.
	PeersEven PeerRule = "Even"
)

// Peers is a rule about where the members of a role are to be, given where
// others are.
type Peers struct {
	Rule PeerRule
	// Level is of which domains the rule speaks.
	Level Level
	// Required is false for what is a wish: it is dropped, all wishes of a
	// request together, where there is no room with it.
	Required bool
	// Skew is for PeersEven.
	Skew int32
	// Others are whom the rule speaks of.
	Others Selector
	// Field is where its owner wrote it.
	Field string
}

// Selector says who is meant, by namespace and labels.
type Selector struct {
	// Namespaces are those in which they are; Everywhere means all.
	Namespaces []string
	Everywhere bool
	// Terms are conditions on labels that must all hold; none: all are meant.
	Terms []Expression
}

// Matches reports whether one with these labels is meant.
func (s *Selector) Matches(namespace string, labels map[string]string) bool {
	if !s.Everywhere && !slices.Contains(s.Namespaces, namespace) {
		return false
	}
	for _, e := range s.Terms {
		have, ok := labels[e.Key]
		if !e.holds(have, ok) {
			return false
		}
	}
	return true
}

// kin is what rules of others need to know of who holds something, and the
// rules by which it keeps others off.
type kin struct {
	namespace string
	labels    map[string]string
	shuns     []Peers
}

// shuns are the rules that hold against those who come later, too.
func shuns(rules []Peers) []Peers {
	var out []Peers
	for _, p := range rules {
		if p.Rule == PeersApart && p.Required {
			out = append(out, p)
		}
	}
	return out
}

// kinOf is what is known of a member of a role; nil if it is nothing.
func kinOf(namespace string, labels map[string]string, rules []Peers) *kin {
	if len(labels) == 0 && len(rules) == 0 {
		return nil
	}
	return &kin{namespace: namespace, labels: labels, shuns: shuns(rules)}
}

func (k *kin) shunning() bool { return k != nil && len(k.shuns) > 0 }

// peers reports that a role has rules about others.
func (r *Request) peers() bool {
	return slices.ContainsFunc(r.Roles, func(r Role) bool { return len(r.Peers) > 0 })
}

// wishes reports that a role has rules that may be dropped.
func (r *Request) wishes() bool {
	return slices.ContainsFunc(r.Roles, func(r Role) bool {
		return slices.ContainsFunc(r.Peers, func(p Peers) bool { return !p.Required })
	})
}

// tied reports that it matters to a role where others are.
func (f *fit) tied(r *Role) bool {
	return !f.core.blind && (len(r.Peers) > 0 || f.core.shunners > 0 || f.shunning)
}

// each calls do for all that is held, by others and by this attempt itself, on
// nodes that are known: a core that was told of a node before it went must not
// find others there that a new one does not.
func (f *fit) each(do func(*held)) {
	for _, e := range f.core.running {
		for i := range e.held {
			if h := &e.held[i]; !h.up && f.core.known(h.site) {
				do(h)
			}
		}
	}
	for i := range f.held {
		do(&f.held[i])
	}
}

// count counts, for one rule, the others in each domain.
func (f *fit) count(p *Peers) map[placement.DomainID]int32 {
	counts := map[placement.DomainID]int32{}
	f.each(func(h *held) {
		if h.kin == nil || !p.Others.Matches(h.kin.namespace, h.kin.labels) {
			return
		}
		if d, ok := f.core.domainOf(h.site.id, p.Level); ok {
			counts[d]++
		}
	})
	return counts
}

// closedBy are the nodes to avoid, and those that the rules of others close to
// a role.
func (f *fit) closedBy(r *Role) *placement.NodeSet {
	out := &placement.NodeSet{}
	for _, s := range f.core.sites {
		if f.core.known(s) && f.avoid.Has(s.id) {
			out.Add(s.id)
		}
	}
	f.each(func(h *held) {
		if !h.kin.shunning() {
			return
		}
		for i := range h.kin.shuns {
			if p := &h.kin.shuns[i]; p.Others.Matches(f.entry.req.Namespace, r.Labels) {
				if d, ok := f.core.domainOf(h.site.id, p.Level); ok {
					f.close(out, d)
				}
			}
		}
	})
	return out
}

func (f *fit) close(set *placement.NodeSet, d placement.DomainID) {
	for _, id := range f.core.cluster.DomainNodes(d) {
		set.Add(id)
	}
}

// amongPeers places the members of a role with rules, one by one.
func (f *fit) amongPeers(i int, todo []int32) bool {
	c, r := f.core, &f.entry.req.Roles[i]
	outer := f.avoid
	closed := f.closedBy(r)
	defer func() { f.avoid = outer }()
	var rules []tie
	for _, p := range r.Peers {
		if p.Required || f.evenly {
			rules = append(rules, tie{Peers: p, self: p.Others.Matches(f.entry.req.Namespace, r.Labels), counts: f.count(&p)})
		}
	}
	for k := range todo {
		for n := range rules {
			rules[n].least = f.fewest(r, &rules[n])
		}
		f.avoid = &placement.NodeSet{}
		for _, s := range c.sites {
			if c.known(s) && (closed.Has(s.id) || slices.ContainsFunc(rules, func(t tie) bool { return !t.allows(c, s.id) })) {
				f.avoid.Add(s.id)
			}
		}
		if !f.members(r, f.entry.asks[i], todo[k:k+1]) {
			return false
		}
		at := f.held[len(f.held)-1].site.id
		for n := range rules {
			if d, ok := c.domainOf(at, rules[n].Level); ok && rules[n].self {
				rules[n].counts[d]++
			}
		}
	}
	return true
}

// tie is a rule while members are placed.
type tie struct {
	Peers
	// self is true if the members are among those of whom the rule speaks;
	// counts are how many of those are in each domain, and least is how many in
	// the domain with the fewest.
	self   bool
	counts map[placement.DomainID]int32
	least  int32
}

// allows reports that the rule does not keep the next member from a node.
func (t *tie) allows(c *Core, id placement.NodeID) bool {
	d, some := c.domainOf(id, t.Level)
	switch t.Rule {
	case PeersApart:
		return !some || t.counts[d] == 0
	case PeersNear:
		return some && (t.counts[d] > 0 || len(t.counts) == 0 && t.self)
	}
	if !some {
		return !t.Required
	}
	return t.counts[d]+int32(truth(t.self))-t.least <= t.Skew
}

// fewest is how many of those of whom a rule speaks are in the domain with the
// fewest, of those with nodes that the role selects.
func (f *fit) fewest(r *Role, t *tie) int32 {
	if t.Rule != PeersEven {
		return 0
	}
	least, some := int32(0), false
	for _, d := range f.eligible(r, t.Level) {
		if !some || t.counts[d] < least {
			least, some = t.counts[d], true
		}
	}
	return least
}

// eligible are the domains of a level with nodes that the role selects.
func (f *fit) eligible(r *Role, l Level) []placement.DomainID {
	if list, known := f.domains[l]; known {
		return list
	}
	selects := Role{NodeLabels: r.NodeLabels, NodeTerms: r.NodeTerms}
	var out []placement.DomainID
	seen := map[placement.DomainID]bool{}
	for _, s := range f.core.sites {
		if !f.core.known(s) || !s.node.selected(selects) {
			continue
		}
		if d, ok := f.core.domainOf(s.id, l); ok && !seen[d] {
			seen[d] = true
			out = append(out, d)
		}
	}
	if f.domains == nil {
		f.domains = map[Level][]placement.DomainID{}
	}
	f.domains[l] = out
	return out
}

// selected reports that the role's node selector and node affinity take the
// node, whatever its taints.
func (n *Node) selected(r Role) bool {
	for key, value := range r.NodeLabels {
		if have, ok := n.Labels[key]; !ok || have != value {
			return false
		}
	}
	return len(r.NodeTerms) == 0 || slices.ContainsFunc(r.NodeTerms, n.matches)
}

// keptApart says that a request would have room if it were all the same where
// others are.
func (c *Core) keptApart(e *entry) Reason {
	if c.shunners == 0 && !e.req.peers() {
		return nil
	}
	c.blind = true
	f, ok := c.place(e, nil)
	c.blind = false
	if !ok {
		return nil
	}
	f.back()
	var out KeptApart
	for i := range e.req.Roles {
		for _, p := range e.req.Roles[i].Peers {
			if p.Required && !slices.Contains(out.Fields, p.Field) {
				out.Fields = append(out.Fields, p.Field)
			}
		}
	}
	return out
}
