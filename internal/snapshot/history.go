package snapshot

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/scheduling/estimate"
	"github.com/muster-dev/muster/internal/scheduling/queue/manifest"
	"github.com/muster-dev/muster/internal/snapshot/conversion"
)

// history notes which gangs that have ended the core has learned from. After a
// start it learns again from all that are still there.
type history struct {
	learned map[types.UID]bool
}

func newHistory() *history { return &history{learned: map[types.UID]bool{}} }

// learn tells the core how long gangs ran that succeeded since it was last
// called, the first to end first.
func (h *history) learn(gangs []v1alpha1.Gang, core *scheduling.Core) {
	for _, g := range h.news(gangs) {
		core.Observe(evidence(g), estimate.Span(g.Status.RanSeconds)*estimate.Second)
	}
}

// news are the gangs that succeeded since it was last called, the first to end
// first.
func (h *history) news(gangs []v1alpha1.Gang) []*v1alpha1.Gang {
	var news []*v1alpha1.Gang
	for i := range gangs {
		g := &gangs[i]
		if g.Status.Outcome == v1alpha1.GangSucceeded && g.Status.FinishTime != nil && !h.learned[g.UID] {
			h.learned[g.UID] = true
			news = append(news, g)
		}
	}
	slices.SortFunc(news, func(a, b *v1alpha1.Gang) int {
		return cmp.Or(a.Status.FinishTime.Compare(b.Status.FinishTime.Time), cmp.Compare(a.UID, b.UID))
	})
	return news
}

// forget drops what is noted of a gang that is no more.
func (h *history) forget(gang types.UID) { delete(h.learned, gang) }

// evidence is what is known of a gang's run time: what its owner says, and
// which gangs are like it: the same user's of that name and size, the user's
// of that size, the queue's, all.
func evidence(g *v1alpha1.Gang) estimate.Evidence {
	var e estimate.Evidence
	if g.Spec.ExpectedRunTime != nil {
		e.Declared = estimate.Span(g.Spec.ExpectedRunTime.Duration)
	}
	if g.Spec.TimeLimit != nil {
		e.Limit = estimate.Span(g.Spec.TimeLimit.Duration)
	}
	e.Reports = reports(g.Status.Progress)
	size := sizeClass(g)
	if u := manifest.User(g.Annotations); u != "" {
		e.Like = append(e.Like, "name/"+u+"/"+g.Spec.Queue+"/"+stem(g.Name)+"/"+size, "user/"+u+"/"+g.Spec.Queue+"/"+size)
	}
	e.Like = append(e.Like, "queue/"+g.Spec.Queue+"/"+size, "size/"+size)
	return e
}

// reports are how far a gang said that it is, in the core's terms.
func reports(p *v1alpha1.Progress) estimate.Reports {
	if p == nil {
		return nil
	}
	out := make(estimate.Reports, 0, len(p.Points))
	for _, x := range p.Points {
		out = append(out, estimate.Point{Ran: estimate.Span(x.RanSeconds) * estimate.Second, Done: float64(x.DoneMillionths) / v1alpha1.Whole})
	}
	return out
}

// sizeClass tells gangs without GPUs, with one, with few and with eight or more
// apart.
func sizeClass(g *v1alpha1.Gang) string {
	var sum int64
	for i := range g.Spec.Roles {
		sum += conversion.GPUs(&g.Spec.Roles[i]) * int64(g.Spec.Roles[i].Replicas)
	}
	switch {
	case sum >= 8:
		return "8"
	case sum > 1:
		return "2"
	}
	return strconv.FormatInt(sum, 10)
}

// stem is a name without what counts its uses: resnet-17 and resnet-18 are
// like each other.
func stem(name string) string { return strings.TrimRight(name, "0123456789-.") }
