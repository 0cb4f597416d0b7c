package snapshot

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/snapshot/conversion"
)

// Ahead is told which gangs start before long, and where. It is called from passes, and
// must not block.
type Ahead interface {
	// Wants reports whether it is to be told of a gang, which is not to be changed.
	Wants(*v1alpha1.Gang) bool
	// Tell tells of all that start before long, in the order of their turns, in place of
	// what was told before. It is called at least every half minute as long as there is
	// anybody of whom it wants to be told.
	Tell([]Prospect)
}

// Prospect is a gang that starts before long, and the nodes that it is likely to get.
type Prospect struct {
	Gang  *v1alpha1.Gang
	Nodes []string
}

const (
	// aheadEvery is how often it is looked ahead, or less often where that would take
	// more than one part of so many of the time; aheadAtLeast is how often it is in any
	// case.
	aheadEvery   = 5 * time.Second
	aheadPart    = 20
	aheadAtLeast = 30 * time.Second
)

// prospects is what was said of who starts before long.
type prospects struct {
	// next is when it is looked again.
	next time.Time
	// nodes are those that were named, by the gang's UID.
	nodes map[string][]string
}

// lookAhead says who starts before long, now and then. It returns when it wants to be
// called again; zero if nobody waits of whom anybody wants to know.
func (l *Loop) lookAhead(now time.Time) time.Time {
	a := &l.prospects
	if l.options.Ahead == nil {
		return time.Time{}
	}
	if now.Before(a.next) && a.next.Sub(now) <= aheadAtLeast {
		return a.next
	}
	began := time.Now()
	wanted := l.wantedAhead()
	var told []Prospect
	var found []scheduling.Prospect
	if len(wanted) > 0 {
		found = l.core.Prospects(wanted, conversion.Instant(now))
	}
	a.nodes = map[string][]string{}
	for _, p := range found {
		a.nodes[p.UID] = p.Nodes
		if g := l.mirror.gang(types.UID(p.UID)); g != nil {
			told = append(told, Prospect{Gang: g, Nodes: p.Nodes})
		}
	}
	l.options.Ahead.Tell(told)
	a.next = now.Add(min(aheadAtLeast, max(aheadEvery, aheadPart*time.Since(began))))
	if len(wanted) == 0 {
		return time.Time{} // who comes wakes the loop
	}
	return a.next
}

// wantedAhead are the gangs of which anybody wants to know, with the nodes that were
// named for them.
func (l *Loop) wantedAhead() map[string][]string {
	out := map[string][]string{}
	l.mirror.mu.Lock()
	defer l.mirror.mu.Unlock()
	for uid, g := range l.mirror.gangs {
		if len(l.mirror.journal[uid]) > 0 {
			continue // it has its place, or had it until now
		}
		if g.Status.Outcome == "" && g.DeletionTimestamp == nil && l.options.Ahead.Wants(g) {
			out[string(uid)] = l.prospects.nodes[string(uid)]
		}
	}
	return out
}
