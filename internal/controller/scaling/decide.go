package scaling

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// observed is what a decision depends on.
type observed struct {
	// waiting are the gangs that wait, and wanting those of them that want nodes,
	// in their order.
	waiting, wanting []*v1alpha1.Gang
	// there are the placeholders that exist.
	there []corev1.Pod
	// since is when each gang that wants nodes began to, and idle when each gang
	// with placeholders ceased to.
	since, idle map[types.UID]time.Time
	now         time.Time
}

// rules are what an administrator says.
type rules struct {
	// after is for how long a gang has wanted nodes before they are asked for,
	// and for how long it has ceased to before they are asked for no more.
	after time.Duration
	// most is how many placeholders there are at most.
	most int
}

// decision is what is to be done.
type decision struct {
	// create are gangs whose placeholders are missing, or some of them; remove
	// are placeholders that are to go.
	create []*v1alpha1.Gang
	remove []corev1.Pod
	// next is when to look again; zero: when something changes.
	next time.Time
}

// decide says who gets placeholders, and whose are to go. It notes in since and
// idle what it sees first.
//
// A gang that is placed, or gone, or suspended, has none from that moment on. One
// that waits and wants no nodes for a moment, because others were told to make
// room for it, keeps them for a while: an autoscaler may be making them.
func decide(o observed, r rules) decision {
	var d decision
	has := map[types.UID]int{}
	for i := range o.there {
		has[standsFor(&o.there[i])]++
	}
	waits, keeps := map[types.UID]bool{}, map[types.UID]bool{}
	for _, g := range o.waiting {
		waits[g.UID] = true
	}
	wants := map[types.UID]bool{}
	for _, g := range o.wanting {
		wants[g.UID] = true
	}
	// 1. Who keeps what it has.
	forget(o.since, wants)
	total := 0
	for uid := range has {
		d.keep(&o, r, uid, waits[uid], wants[uid], keeps)
		if keeps[uid] {
			total += has[uid]
		}
	}
	forget(o.idle, keeps)
	// 2. Who asks anew, in their order, as long as there may be more.
	for _, g := range o.wanting {
		if _, known := o.since[g.UID]; !known {
			o.since[g.UID] = o.now
		}
		need := count(g)
		switch due := o.since[g.UID].Add(r.after); {
		case need == 0:
		case has[g.UID] >= need && keeps[g.UID]:
		case total-has[g.UID]+need > r.most:
		case has[g.UID] == 0 && o.now.Before(due):
			d.again(due)
		default:
			d.create = append(d.create, g)
			total += need - has[g.UID]
		}
	}
	// 3. What is to go.
	for i := range o.there {
		if !keeps[standsFor(&o.there[i])] && o.there[i].DeletionTimestamp == nil {
			d.remove = append(d.remove, o.there[i])
		}
	}
	return d
}

// keep decides whether a gang keeps the placeholders that it has.
func (d *decision) keep(o *observed, r rules, uid types.UID, waits, wants bool, keeps map[types.UID]bool) {
	switch {
	case wants:
		delete(o.idle, uid)
		keeps[uid] = true
	case waits:
		if _, known := o.idle[uid]; !known {
			o.idle[uid] = o.now
		}
		until := o.idle[uid].Add(r.after)
		if keeps[uid] = o.now.Before(until); keeps[uid] {
			d.again(until)
		}
	}
}

// again asks to be called by then.
func (d *decision) again(at time.Time) {
	if d.next.IsZero() || at.Before(d.next) {
		d.next = at
	}
}

// forget drops what is known of gangs that are not among these.
func forget(known map[types.UID]time.Time, these map[types.UID]bool) {
	for uid := range known {
		if !these[uid] {
			delete(known, uid)
		}
	}
}

// member is one that needs a node.
type member struct {
	role  *v1alpha1.GangRole
	index int32
}

// members are those of a gang that need nodes to start: all that are not done,
// of an elastic role as many as it starts with. A gang with a share of a GPU has
// none: what would hold shares is not to be said by a pod.
func members(g *v1alpha1.Gang) []member {
	var out []member
	for i := range g.Spec.Roles {
		r := &g.Spec.Roles[i]
		if r.GPUMemory != nil || r.GPUs != nil && r.GPUs.MilliValue()%1000 != 0 {
			return nil
		}
		least := r.Replicas
		if r.MinReplicas != nil {
			least = *r.MinReplicas
		}
		for n := int32(0); n < r.Replicas && least > 0; n++ {
			if !slices.Contains(g.Status.Done, nameOf(r.Name, n)) {
				out = append(out, member{r, n})
				least--
			}
		}
	}
	return out
}

func count(g *v1alpha1.Gang) int { return len(members(g)) }

// standsFor is the UID of the gang for which a placeholder asks.
func standsFor(p *corev1.Pod) types.UID {
	return types.UID(cmp.Or(p.Labels[v1alpha1.LabelPlaceholder], "nobody"))
}

// unmarked reports whether a placeholder does not say yet that it finds no node.
func unmarked(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && !slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
	})
}
