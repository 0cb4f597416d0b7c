package scheduling

import (
	"fmt"
	"strings"
)

// Withheld are GPUs of one node that would do and are not given out.
type Withheld struct {
	// Node has them, Model and Count say what they are.
	Node  string
	Model string
	Count int
	// Counts is true where a part of a GPU is asked for, and the node gives whole
	// ones only; else the node is not Muster's alone.
	Counts bool
}

// severally finds a pod with several containers that ask for GPUs, and that would have some
// if one did.
func (d *diagnosis) severally() Reason {
	for i := range d.req.Roles {
		r := &d.req.Roles[i]
		if !r.NoClaims || d.left.sum(r).all > 0 {
			continue
		}
		one := *r
		one.NoClaims = false
		if d.left.sum(&one).all > 0 {
			return Unsupported{Words: r.Askers + " ask for GPUs, and one container of a pod may where GPUs are given by claims: have one of them ask for all"}
		}
	}
	return nil
}

// withheld finds GPUs that would do for a role and are not given out, in the
// order of the names of their nodes.
func (d *diagnosis) withheld(r *Role) []Withheld {
	whole := *r
	whole.Share = Share{}
	var out []Withheld
	for i := range d.left.rooms {
		n := d.left.rooms[i].node
		counting := (n.Counts || n.Whole) && r.Share.some() && len(n.Devices) > 0
		if !counting && len(n.Unowned) == 0 || n.refuses(whole) != "" {
			continue
		}
		if counting && r.accepts(n.Devices[0]) {
			out = append(out, Withheld{Node: n.Name, Model: n.Devices[0].Model, Count: len(n.Devices), Counts: true})
		}
		for _, m := range n.Unowned {
			if r.accepts(Device{Model: m.Model}) && !r.Share.some() {
				out = append(out, Withheld{Node: n.Name, Model: m.Model, Count: m.Count})
			}
		}
	}
	return out
}

// withheldText is the end of a sentence about what is missing: what there would
// be, and what to do about it.
func withheldText(list []Withheld) string {
	if len(list) == 0 {
		return ""
	}
	var what, nodes []string
	for i, w := range list {
		if i == shown {
			what = append(what, fmt.Sprintf("and of %d more nodes", len(list)-shown))
			break
		}
		what, nodes = append(what, fmt.Sprintf("%d %s of node %s", w.Count, w.Model, w.Node)), append(nodes, w.Node)
	}
	if list[0].Counts {
		return "; these nodes give whole GPUs only: " + strings.Join(what, ", ") + "; ask for whole GPUs"
	}
	return "; not Muster's to give out: " + strings.Join(what, ", ") + " (`muster node add " + strings.Join(nodes, " ") + "`)"
}
