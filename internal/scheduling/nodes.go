package scheduling

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// taintUnschedulable is the key under which a cordon is tolerated.
const taintUnschedulable = "node.kubernetes.io/unschedulable"

// refuses says why the node does not take members of the role at all, and ""
// if it does. How much is free is not looked at.
func (n Node) refuses(r Role) string {
	switch {
	case n.NotReady != "":
		return "is not ready: " + n.NotReady
	case n.Unschedulable && !tolerated(Taint{Key: taintUnschedulable, Effect: "NoSchedule"}, r.Tolerations):
		return "is cordoned"
	case n.Counts && r.Share.some():
		return "only counts its GPUs and picks them itself: a part of one cannot be given there"
	case n.Whole && r.Share.some():
		return "gives whole GPUs only: a part of one cannot be given there"
	case n.Claims && r.NoClaims:
		return "gives GPUs by claims, to one container of a pod: have one ask for all of them"
	}
	if at := slices.IndexFunc(r.Avoid, func(a Avoided) bool { return a.Node == n.Name }); at >= 0 {
		return r.Avoid[at].Why
	}
	for _, taint := range n.Taints {
		if taint.Effect == preferNot || tolerated(taint, r.Tolerations) {
			continue
		}
		return fmt.Sprintf("has the taint %s, which is not tolerated", taint.text())
	}
	for _, key := range sortedKeys(r.NodeLabels) {
		if have, ok := n.Labels[key]; !ok || have != r.NodeLabels[key] {
			return fmt.Sprintf("lacks the label %s=%s of the node selector", key, r.NodeLabels[key])
		}
	}
	if len(r.NodeTerms) > 0 && !slices.ContainsFunc(r.NodeTerms, n.matches) {
		return "does not match the node affinity"
	}
	for i := range r.Volumes {
		if !slices.ContainsFunc(r.Volumes[i].Terms, n.matches) {
			return "cannot use the volume of claim " + r.Volumes[i].Claim + ", which is tied to other nodes"
		}
	}
	return ""
}

func (t Taint) text() string {
	s := t.Key
	if t.Value != "" {
		s += "=" + t.Value
	}
	return s + ":" + t.Effect
}

// tolerated reports whether one of the tolerations accepts the taint.
func tolerated(taint Taint, tolerations []Toleration) bool {
	for _, t := range tolerations {
		if t.Effect != "" && t.Effect != taint.Effect {
			continue
		}
		if t.Key == "" && t.Exists {
			return true
		}
		if t.Key == taint.Key && (t.Exists || t.Value == taint.Value) {
			return true
		}
	}
	return false
}

// matches reports whether all conditions of a term hold. A term without
// conditions matches nothing, as in Kubernetes.
func (n Node) matches(term []Expression) bool {
	for _, e := range term {
		have, ok := n.Labels[e.Key]
		if e.Field {
			have, ok = n.Name, e.Key == "metadata.name"
		}
		if !e.holds(have, ok) {
			return false
		}
	}
	return len(term) > 0
}

// holds evaluates one condition on a value that may be absent.
func (e Expression) holds(have string, ok bool) bool {
	switch e.Operator {
	case "In":
		return ok && slices.Contains(e.Values, have)
	case "NotIn":
		return !ok || !slices.Contains(e.Values, have)
	case "Exists":
		return ok
	case "DoesNotExist":
		return !ok
	case "Gt", "Lt":
		if !ok || len(e.Values) != 1 {
			return false
		}
		a, errA := strconv.ParseInt(have, 10, 64)
		b, errB := strconv.ParseInt(e.Values[0], 10, 64)
		if errA != nil || errB != nil {
			return false
		}
		return (e.Operator == "Gt" && a > b) || (e.Operator == "Lt" && a < b)
	}
	return false
}

// is reports whether the device is of the model that a user wrote: A100
// matches whatever its letter case.
func (d Device) is(model string) bool { return strings.EqualFold(d.Model, model) }

// usable says why the device cannot be given out whatever happens to gangs,
// and "" if it can.
func (d Device) usable() bool { return d.Unhealthy == "" && len(d.Foreign) == 0 }

// device is the place of a device among those of the node; below 0: it is none
// of them.
func (n *Node) device(uuid string) int {
	return slices.IndexFunc(n.Devices, func(d Device) bool { return d.UUID == uuid })
}
