package retention

import "time"

// Grace is how long after it was reserved a thing stays, whoever asks for its
// removal. It is far longer than what lies between storing a snapshot and
// creating the job that names it.
const Grace = time.Hour

// Rule says what may go, in one pass.
type Rule struct {
	// Live tells what somebody refers to.
	Live References
	// Now is the time that ages are counted to.
	Now time.Time
	// Retention is how long after its last use a thing stays that nobody
	// refers to. 0: it goes once the grace period is over.
	Retention time.Duration
	// DryRun finds out what would go, and removes nothing.
	DryRun bool
}

// Verdict is what becomes of one thing.
type Verdict int

// The verdicts. Only what is [Expired] may be removed.
const (
	// Live: somebody refers to it.
	Live Verdict = iota
	// Recent: its grace period is not over, and nothing else keeps it.
	Recent
	// Retained: it was used not long ago.
	Retained
	// Expired: it may go.
	Expired
)

// Judge says what becomes of the thing with the given name, a digest or a key,
// that was last reserved and last used then. A time in the future counts as
// now.
func (r Rule) Judge(name string, reserved, used time.Time) Verdict {
	if used.Before(reserved) {
		used = reserved
	}
	switch {
	case r.Live.Has(name):
		return Live
	case max(r.Now.Sub(used), 0) < r.Retention:
		return Retained
	case r.Now.Sub(reserved) < Grace:
		return Recent
	}
	return Expired
}

// Unfinished says what becomes of something that was begun and never finished,
// that nobody works on and that was last changed then: nobody can use it, so
// that only the grace period keeps it.
func (r Rule) Unfinished(changed time.Time) Verdict {
	if r.Now.Sub(changed) < Grace {
		return Recent
	}
	return Expired
}

// Outcome is what one pass over one store did, or would do.
type Outcome struct {
	// Removed are the things that went, in the order of their names.
	Removed []Removed
	// Kept counts the things that stay; Recent counts those of them that only
	// the grace period keeps.
	Kept, Recent int
	// Bytes is the size of all files that went, those of things that were
	// never finished included.
	Bytes int64
}

// Removed is one thing that went.
type Removed struct {
	// Name is its digest or key.
	Name string
	// LastUsed is when it was last used.
	LastUsed time.Time
	// Bytes is the size of what it held. Snapshots share contents, so that
	// the sum may be more than what was freed.
	Bytes int64
}

// Keep counts a thing that stays.
func (o *Outcome) Keep(v Verdict) {
	o.Kept++
	if v == Recent {
		o.Recent++
	}
}
