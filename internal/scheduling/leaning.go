package scheduling

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/muster-dev/muster/internal/scheduling/placement"
)

// Preference says that nodes which match a term are liked better, by how much.
type Preference struct {
	// Weight is from 1 to 100.
	Weight int32
	// Term are conditions that must all hold.
	Term []Expression
}

// preferNot is the effect of a taint that keeps nothing off for which there is
// no room elsewhere.
const preferNot = "PreferNoSchedule"

// softly is what a taint of that kind weighs that is not tolerated: as much as
// the strongest preference.
const softly = 100

// mostPreferred is what all preferences together weigh at most, so that a taint
// beside them still counts.
const mostPreferred = placement.MostLeaning - softly

// leaning defines, once, how gladly members of a role are put on each node, and
// returns its name; empty if all nodes are alike to it.
func (c *Core) leaning(r *Role) string {
	if len(r.Prefers) == 0 && c.softTaints == 0 {
		return ""
	}
	var b strings.Builder
	for _, t := range r.Tolerations {
		fmt.Fprintf(&b, "~%q %q %q %t", t.Key, t.Value, t.Effect, t.Exists)
	}
	for _, p := range r.Prefers {
		b.WriteString("|" + strconv.Itoa(int(p.Weight)))
		for _, e := range p.Term {
			fmt.Fprintf(&b, ":%q %q %q %t;", e.Key, e.Operator, e.Values, e.Field)
		}
	}
	name := "leaning " + b.String()
	role := Role{Prefers: r.Prefers, Tolerations: r.Tolerations}
	// The only errors are of an empty name and of no function.
	_ = c.cluster.SetLeaning(name, func(_ string, facts any) int {
		n, ok := facts.(*Node)
		if !ok {
			return 0
		}
		return role.leans(n)
	})
	return name
}

// leans is how gladly members of the role are put on a node.
func (r *Role) leans(n *Node) int {
	sum, most := 0, 0
	for _, p := range r.Prefers {
		most += int(max(0, p.Weight))
		if p.Weight > 0 && n.matches(p.Term) {
			sum += int(p.Weight)
		}
	}
	if most > mostPreferred {
		sum = sum * mostPreferred / most
	}
	for _, t := range n.Taints {
		if t.Effect == preferNot && !tolerated(t, r.Tolerations) {
			sum -= softly
		}
	}
	return sum
}

// soft is 1 for a node with a taint of that kind.
func (n *Node) soft() int {
	for _, t := range n.Taints {
		if t.Effect == preferNot {
			return 1
		}
	}
	return 0
}

// countSoft counts nodes with taints that keep off only where there is room
// elsewhere. With the first and the last of them, requests ask differently.
func (c *Core) countSoft(change int) {
	before := c.softTaints
	c.softTaints += change
	if (before == 0) == (c.softTaints == 0) {
		return
	}
	for _, e := range c.waiting {
		for i := range e.asks {
			e.asks[i] = c.ask(&e.req.Roles[i], 1)
		}
	}
}
