package scheduling

import (
	"cmp"
	"slices"

	"github.com/muster-dev/muster/internal/scheduling/calibration"
	"github.com/muster-dev/muster/internal/scheduling/estimate"
)

// Calibration is what a [Foresight] has learned, to be kept and given to
// another one. Its fields are for encoding/json, which writes equal ones as
// equal bytes.
type Calibration struct {
	// Drift is by how much ranges are narrower than what was learned says.
	Drift float64 `json:"drift,omitempty"`
	// Ratios are counts of ratios of true to foreseen waits.
	Ratios []calibration.Ratios `json:"ratios,omitempty"`
	// Open are forecasts that have not come true yet, the oldest first.
	Open []CalibrationOpen `json:"open,omitempty"`
}

// CalibrationOpen is one forecast. Times are in nanoseconds.
type CalibrationOpen struct {
	UID    string        `json:"uid"`
	At     Instant       `json:"at"`
	Wait   estimate.Span `json:"wait"`
	Size   int           `json:"size"`
	Length int           `json:"length"`
	Ahead  int           `json:"ahead"`
	From   Instant       `json:"from"`
	To     Instant       `json:"to"`
}

// keptOpen is how many open forecasts are kept in a Calibration: of the oldest,
// so that a restart does not leave only what waits shortly to learn from.
const keptOpen = 256

// Learned returns what was learned.
func (f *Foresight) Learned() Calibration {
	out := Calibration{Drift: f.ratios.Drift(), Ratios: f.ratios.Learned()}
	for _, uid := range sortedKeys(f.open) {
		o := f.open[uid]
		out.Open = append(out.Open, CalibrationOpen{
			UID: uid, At: o.at, Wait: o.wait, Size: o.like.Size, Length: o.like.Length, Ahead: o.like.Ahead, From: o.from, To: o.to,
		})
	}
	slices.SortStableFunc(out.Open, func(a, b CalibrationOpen) int { return cmp.Compare(a.At, b.At) })
	out.Open = out.Open[:min(keptOpen, len(out.Open))]
	return out
}

// NewForesight returns a Foresight that has learned that. What is not
// understood of it, or out of range, counts as not learned.
func NewForesight(learned Calibration) *Foresight {
	f := &Foresight{ratios: calibration.New(learned.Drift, learned.Ratios), open: map[string]forecast{}}
	for _, o := range learned.Open[:min(keptOpen, len(learned.Open))] {
		like := calibration.Category{Size: o.Size, Length: o.Length, Ahead: o.Ahead}
		if like.Known() && o.Wait > 0 && o.At > 0 {
			f.open[o.UID] = forecast{at: o.At, wait: o.Wait, like: like, from: o.From, to: o.To}
		}
	}
	return f
}

// Shift tells that the clock was set: see [Core.Shift].
func (f *Foresight) Shift(by estimate.Span) {
	for uid, o := range f.open {
		o.at, o.from, o.to = moved(o.at, by), moved(o.from, by), moved(o.to, by)
		f.open[uid] = o
	}
}

// Newest is the request that was made last of those that wait, may start and
// are wanted.
func (c *Core) Newest(now Instant, wanted func(uid string) bool) (uid string, ok bool) {
	var newest *entry
	for _, e := range c.waiting {
		if (newest == nil || newest.created() < e.created()) && !e.lost && e.req.extends == "" && wanted(e.req.UID) && c.notNow(e, now) == nil {
			newest = e
		}
	}
	if newest == nil {
		return "", false
	}
	return newest.req.UID, true
}
