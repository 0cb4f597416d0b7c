package gang

import (
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/news"
)

// runsWithin is for the [news] that all members run: from then on the scheduler
// counts for how long they have, and may stop them for others. Of a gang news is how
// far an attempt has come that is journalled anyway, and that pods and placements say
// again to whoever begins anew.
const runsWithin = 2 * time.Second

// countsEvery is how often a gang's status is written if nothing but its counts
// of members changed.
const countsEvery = 500 * time.Millisecond

// untilMore is for how long the counts of a gang that has no members yet wait
// for something else to be written with them.
const untilMore = 10 * time.Minute

// unsaid is news of a gang that waits.
type unsaid struct {
	// version is the gang that it was decided from.
	version version
	status  v1alpha1.GangStatus
	// due is when it is written at the latest.
	due time.Time
	// queued: it has a turn. Else it is counts alone, for which nothing else
	// waits.
	queued bool
}

// ahead returns the gang as if all news were written, so that what is decided
// does not depend on when that happens. Of a gang that somebody else wrote since,
// everything is found out anew.
func (c *Controller) ahead(g *v1alpha1.Gang) *v1alpha1.Gang {
	c.mu.Lock()
	defer c.mu.Unlock()
	u, waits := c.unsaid[client.ObjectKeyFromObject(g)]
	if !waits || u.version.uid != g.UID || u.version.resource != g.ResourceVersion {
		return g
	}
	out := *g
	out.Status = u.status
	return &out
}

// early returns for how long a status need not be written yet, and remembers it
// until then.
func (c *Controller) early(o observed, status *v1alpha1.GangStatus) time.Duration {
	key := client.ObjectKeyFromObject(o.gang)
	c.mu.Lock()
	defer c.mu.Unlock()
	wait, queued := time.Duration(0), false
	switch before := &o.gang.Status; {
	case onlyCounts(before, status):
		if len(o.pods) == 0 && len(before.Roles) == 0 {
			wait = untilMore
		} else if last := c.written[key]; last.uid == o.gang.UID {
			// The members of a large gang report one by one, and every write of
			// its status is one of its job's as well.
			wait = countsEvery - o.now.Sub(last.at)
		}
	case isNews(before, status):
		within := news.Within
		if before.AllStartedTime == nil && status.AllStartedTime != nil {
			within = runsWithin
		}
		wait, queued = c.turn(key, o, within), true
	}
	if wait <= 0 {
		delete(c.unsaid, key)
		return 0
	}
	due := o.now.Add(wait)
	if u, waits := c.unsaid[key]; waits && u.version.uid == o.gang.UID {
		if u.due.Before(due) {
			due = u.due
		}
		queued = queued || u.queued
	}
	c.unsaid[key] = unsaid{version{o.gang.UID, o.gang.ResourceVersion, o.now}, *status, due, queued}
	return wait
}

// turn is when news of a gang is written: at once, or in as long as that.
func (c *Controller) turn(key types.NamespacedName, o observed, within time.Duration) time.Duration {
	if u, waits := c.unsaid[key]; waits && u.queued && u.version.uid == o.gang.UID {
		return min(within, u.due.Sub(o.now))
	}
	return news.Turn(c.news, o.now, within)
}

// said forgets news that is written, or that is none any more.
func (c *Controller) said(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.unsaid, key)
}

// onlyCounts reports whether statuses differ in nothing but how many members
// there are.
func onlyCounts(before, after *v1alpha1.GangStatus) bool {
	now := *after
	now.Roles = before.Roles
	return equality.Semantic.DeepEqual(*before, now)
}

// isNews reports whether statuses differ only in how far an attempt has come.
func isNews(before, after *v1alpha1.GangStatus) bool {
	if !underWay(before.Phase) || !underWay(after.Phase) {
		return false
	}
	now := *after
	now.Roles, now.Phase, now.Attempt, now.Reason, now.Message = before.Roles, before.Phase, before.Attempt, before.Reason, before.Message
	now.StartTime, now.AllStartedTime = before.StartTime, before.AllStartedTime
	now.DataSince, now.DataSeconds, now.DataGPUSeconds = before.DataSince, before.DataSeconds, before.DataGPUSeconds
	now.GPUSince, now.GPUsHeld = before.GPUSince, before.GPUsHeld
	now.GPUStartSeconds, now.GPUStartedSeconds = before.GPUStartSeconds, before.GPUStartedSeconds
	now.Refusals, now.StartTimeouts = before.Refusals, before.StartTimeouts
	if after.NotBefore == nil && holdsNow(after) {
		now.NotBefore = before.NotBefore
	}
	return equality.Semantic.DeepEqual(*before, now)
}

// underWay reports whether a gang in a phase waits, starts or runs.
func underWay(p v1alpha1.GangPhase) bool {
	switch p {
	case "", v1alpha1.GangPending, v1alpha1.GangPlanned, v1alpha1.GangStarting, v1alpha1.GangRunning:
		return true
	}
	return false
}
