package scheduling

import (
	"fmt"
	"slices"
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
	// NotReady is why the node takes no pods; empty if it does.
	NotReady string
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
// order of the names of their nodes, those of nodes that are not ready last.
func (d *diagnosis) withheld(r *Role) []Withheld {
	return append(d.notGiven(r), d.silent(r)...)
}

// The taints that Kubernetes gives nodes that are not ready.
const (
	taintUnreachable = "node.kubernetes.io/unreachable"
	taintNotReady    = "node.kubernetes.io/not-ready"
)

// silent finds GPUs of nodes that would do if they were ready.
func (d *diagnosis) silent(r *Role) []Withheld {
	var out []Withheld
	for i := range d.left.rooms {
		n := *d.left.rooms[i].node
		why := n.NotReady
		n.NotReady = ""
		n.Taints = slices.DeleteFunc(slices.Clone(n.Taints), func(t Taint) bool { return t.Key == taintUnreachable || t.Key == taintNotReady })
		if why == "" || n.refuses(*r) != "" {
			continue
		}
		count, model := 0, ""
		for _, dev := range n.Devices {
			if r.accepts(dev) {
				count, model = count+1, dev.Model
			}
		}
		if count > 0 {
			out = append(out, Withheld{Node: n.Name, Model: model, Count: count, NotReady: why})
		}
	}
	return out
}

// notGiven finds GPUs of nodes that are ready.
func (d *diagnosis) notGiven(r *Role) []Withheld {
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
	silent := len(list)
	for silent > 0 && list[silent-1].NotReady != "" {
		silent--
	}
	return notGivenText(list[:silent]) + silentText(list[silent:])
}

func notGivenText(list []Withheld) string {
	if len(list) == 0 {
		return ""
	}
	var nodes []string
	for _, w := range list[:min(len(list), shown)] {
		nodes = append(nodes, w.Node)
	}
	if list[0].Counts {
		return "; these nodes give whole GPUs only: " + gpusText(list) + "; ask for whole GPUs"
	}
	return "; not Muster's to give out: " + gpusText(list) + " (`muster node add " + strings.Join(nodes, " ") + "`)"
}

func silentText(list []Withheld) string {
	switch len(list) {
	case 0:
		return ""
	case 1:
		return "; without " + gpusText(list) + ", which is not ready: " + strings.TrimSuffix(list[0].NotReady, ".")
	}
	return "; without those of nodes that are not ready: " + gpusText(list)
}

// gpusText names GPUs with their nodes.
func gpusText(list []Withheld) string {
	var what []string
	for i, w := range list {
		if i == shown {
			what = append(what, fmt.Sprintf("and of %d more nodes", len(list)-shown))
			break
		}
		what = append(what, fmt.Sprintf("%d %s of node %s", w.Count, w.Model, w.Node))
	}
	return strings.Join(what, ", ")
}
