package scheduling

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/muster-dev/muster/internal/scheduling/placement"
)

// ask is the class of n members of a role together on one node.
func (c *Core) ask(r *Role, n int64) placement.Class {
	ask := resourcesAsk(r.Resources, n)
	ask.GPUs = int(int64(r.GPUs) * n)
	ask.ShareMilli, ask.ShareMiB = r.Share.Milli, r.Share.MiB
	for _, m := range r.Models {
		ask.Models = append(ask.Models, strings.ToLower(m))
	}
	ask.InOrder = len(ask.Models) > 1
	ask.Rule, ask.Leaning = c.rule(r), c.leaning(r)
	class, err := c.cluster.Class(ask)
	if err != nil {
		// More than any node may have: a class that fits nowhere.
		class, _ = c.cluster.Class(placement.Ask{GPUs: placement.MaxDevices, Pods: placement.MaxAmount})
	}
	return class
}

// resourcesAsk is what n members take beside GPUs.
func resourcesAsk(r Resources, n int64) placement.Ask {
	ask := placement.Ask{MilliCPU: max(0, r.MilliCPU) * n, MemoryBytes: max(0, r.Memory) * n, Pods: max(0, r.Pods) * n}
	for _, name := range sortedKeys(r.Other) {
		if amount := r.Other[name]; amount > 0 {
			ask.Other = append(ask.Other, placement.Amount{Name: name, Value: amount * n})
		}
	}
	return ask
}

// rule defines, once, the predicate that says which nodes take a role, and
// returns its name.
func (c *Core) rule(r *Role) string {
	name := ruleName(r)
	if !c.rules[name] {
		c.rules[name] = true
		role := Role{NodeLabels: r.NodeLabels, NodeTerms: r.NodeTerms, Volumes: r.Volumes, Tolerations: r.Tolerations, Avoid: r.Avoid, Share: r.Share, NoClaims: r.NoClaims}
		// The only errors are of an empty name and of no predicate.
		_ = c.cluster.SetRule(name, func(_ string, facts any) bool {
			n, ok := facts.(*Node)
			return ok && n.refuses(role) == ""
		})
	}
	return name
}

// ruleName spells out what the predicate depends on.
func ruleName(r *Role) string {
	if len(r.NodeLabels) == 0 && len(r.NodeTerms) == 0 && len(r.Volumes) == 0 && len(r.Tolerations) == 0 && len(r.Avoid) == 0 && !r.Share.some() && !r.NoClaims {
		return "any"
	}
	var b strings.Builder
	if r.Share.some() {
		b.WriteString("part;")
	}
	if r.NoClaims {
		b.WriteString("no claims;")
	}
	for _, a := range r.Avoid {
		b.WriteString("-" + strconv.Quote(a.Node) + ";")
	}
	for _, k := range sortedKeys(r.NodeLabels) {
		b.WriteString(strconv.Quote(k) + "=" + strconv.Quote(r.NodeLabels[k]) + ";")
	}
	for _, term := range r.NodeTerms {
		b.WriteByte('|')
		for _, e := range term {
			fmt.Fprintf(&b, "%q %q %q %t;", e.Key, e.Operator, e.Values, e.Field)
		}
	}
	for i := range r.Volumes {
		fmt.Fprintf(&b, "@%q", r.Volumes[i].Claim)
		for _, term := range r.Volumes[i].Terms {
			b.WriteByte('|')
			for _, e := range term {
				fmt.Fprintf(&b, "%q %q %q %t;", e.Key, e.Operator, e.Values, e.Field)
			}
		}
	}
	for _, t := range r.Tolerations {
		fmt.Fprintf(&b, "~%q %q %q %t", t.Key, t.Value, t.Effect, t.Exists)
	}
	return b.String()
}
