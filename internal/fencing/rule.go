package fencing

// State is what the fence says at one moment. The zero State is a fence that
// nobody has taken yet.
type State struct {
	// Epoch counts takeovers; the scheduler that made the last one leads.
	Epoch int64
	// Settled is the last epoch whose takeover adopted everything, one by one.
	// What existed then carries a stamp of at least Settled.
	Settled int64
	// Closed is the last epoch whose scheduler has handed over in order: the
	// epochs from Settled to Closed are an unbroken chain, and all that their
	// schedulers wrote has arrived or never will. 0, or less than Settled: there
	// is no such chain.
	Closed int64
}

// Verdict is what becomes of something that a scheduler wrote.
type Verdict int

// The verdicts on what carries an epoch.
const (
	// Valid: every later scheduler will find it, and adopt it.
	Valid Verdict = iota
	// Undecided: a takeover is under way. Whoever takes over adopts it;
	// everyone else waits.
	Undecided
	// Void: it was written too late to be adopted, and is undone.
	Void
	// Ahead: the fence was read before it was written, and must be read again.
	Ahead
)

// String is the verdict as a word.
func (v Verdict) String() string {
	return [...]string{"valid", "undecided", "void", "ahead"}[v]
}

// Judge returns the verdict on what carries an epoch: the higher of the one
// that it was written with and its stamp. Valid holds if it was seen before
// the fence was read; Void holds if it was read, past any cache, after the
// fence was.
//
// What carries an epoch of the chain is valid, whoever leads now: it existed
// before the fence moved past the chain, so all who take over after that find it.
func (s State) Judge(epoch int64) Verdict {
	switch {
	case epoch > s.Epoch:
		return Ahead
	case epoch == s.Epoch, s.chained() && s.Settled <= epoch && epoch <= s.Closed:
		return Valid
	case epoch >= s.Settled:
		return Undecided
	}
	return Void
}

// chained reports whether there is a chain.
func (s State) chained() bool { return s.Settled > 0 && s.Closed >= s.Settled }

// Continues reports whether the scheduler of the present epoch carries the chain
// on: the one just before it has handed over to it in order. It has nothing to
// adopt. Where another has taken the fence in between, nothing is known of what
// that one wrote, and everything is to be adopted.
func (s State) Continues() bool { return s.chained() && s.Closed == s.Epoch-1 }

// Leads reports whether the scheduler of an epoch may still write: nobody has
// taken over from it, its own takeover is finished, and it has not handed over.
func (s State) Leads(epoch int64) bool {
	return s.Epoch == epoch && s.Closed < epoch && (s.Settled == epoch || s.Continues())
}

// Deposes reports whether another scheduler has taken over from that of an
// epoch. A fence that was made anew counts as one.
func (s State) Deposes(epoch int64) bool { return s.Epoch != epoch }

// Next is the fence after a takeover, given the highest epoch that anything is
// known to carry. Nothing is settled by it.
func (s State) Next(seen int64) State {
	return State{Epoch: max(s.Epoch, seen) + 1, Settled: s.Settled, Closed: s.Closed}
}

// Settle is the fence once the scheduler of an epoch has adopted everything.
// Where it carries a chain on, that is nothing, and what was settled stays: a
// scheduler that knows of no chains takes over from there as it always did. It
// is false where another has taken over meanwhile: then nothing changes.
func (s State) Settle(epoch int64) (State, bool) {
	if s.Deposes(epoch) {
		return s, false
	}
	if s.Continues() {
		return s, true
	}
	return State{Epoch: epoch, Settled: epoch}, true
}

// Close is the fence once the scheduler of an epoch says that it hands over in
// order: it plans nothing more, and has the answer to everything that it wrote.
// It is false where it does not lead: then nothing changes.
func (s State) Close(epoch int64) (State, bool) {
	if !s.Leads(epoch) {
		return s, false
	}
	return State{Epoch: epoch, Settled: s.Settled, Closed: epoch}, true
}

// Adopts reports whether a scheduler that takes over, with the fence as it
// left it, stamps what it listed after that. What is void, it leaves to be
// undone. Who breaks a chain stamps what belongs to it, too: by its settling all
// that bears no stamp becomes void.
func (s State) Adopts(epoch int64) bool {
	return !s.Continues() && s.Settled <= epoch && epoch < s.Epoch
}

// Counts reports whether a scheduler, with the fence as it settled it, counts
// what a Placement names as held. What is void never starts, and holds nothing.
func (s State) Counts(epoch int64) bool { return s.Judge(epoch) != Void }

// Mine reports whether what exists under the name that the scheduler of an
// epoch wanted to write is its own earlier write, whose answer was lost.
func Mine(mine, epoch int64) bool { return mine == epoch }

// Step is what is to be done next to give a Placement back.
type Step int

// The steps, in their order.
const (
	// Mark: let nothing of the Placement start any more.
	Mark Step = iota
	// Wait: until its members are gone.
	Wait
	// Free: let the Placement go.
	Free
)

// Release returns the next step of giving a Placement back. Members are those
// found past any cache after it was seen that the Placement is marked; so a
// member that is made later is refused by its node, which looks for the mark
// after it has seen the member.
func Release(marked bool, members int) Step {
	switch {
	case !marked:
		return Mark
	case members > 0:
		return Wait
	}
	return Free
}

// MayRun reports whether a node may start a member: the Placement that it was
// made from, by UID, is the one that exists now, and is not being given back.
// The Placement must be read, past any cache, after the member was seen.
func MayRun(from, exists string, marked bool) bool {
	return exists != "" && from == exists && !marked
}

// Burns reports whether an attempt number must be passed over before the
// Placement of a late attempt is undone: no two Placements that anyone may have
// seen bear the same one. Holds: the gang has accepted an attempt, and it is
// not given back yet.
func Burns(attempt, late int32, holds bool) bool { return !holds && late > attempt }

// Spent reports whether a Placement is of an attempt that was given back
// already: a write that came twice. It starts nothing, and is undone.
func Spent(attempt, late int32, holds bool) bool {
	return late < attempt || late == attempt && !holds
}

// Starts reports whether members of a Placement may be made, as far as its
// gang is concerned. The gang must be read, past any cache, after the Placement
// was seen.
func Starts(attempt, placed int32, holds bool) bool {
	if holds {
		return placed == attempt
	}
	return placed > attempt
}

// Growth numbers the Placements of further replicas in the order in which they
// were planned: by the epoch of who planned one, and the how manieth of that
// scheduler it is, from 1. The zero Growth comes before all.
type Growth struct{ Epoch, Number int64 }

// After reports whether a further replica was planned after another.
func (g Growth) After(other Growth) bool {
	return g.Epoch > other.Epoch || g.Epoch == other.Epoch && g.Number > other.Number
}

// Returned reports whether the Placement of a further replica is one that was
// given back already in this attempt: a write that came twice. Mark is the last
// planned of those that were given back, written down before any of them went;
// the gang must be read, past any cache, after the Placement was seen. Known:
// this very Placement, by UID, was found to be none before, or a member was
// made from it.
//
// One that is seen for the first time after a later one was given back is taken
// for one, too, and planned again. So a member may have been made from it after
// all, and it is given back in the order of [Release].
func Returned(mark, number Growth, known bool) bool {
	return mark != (Growth{}) && !known && !number.After(mark)
}

// Drops reports whether a scheduler may forget a plan that its gang no longer
// wants: not while a write of it may still be under way.
func Drops(unclear bool) bool { return !unclear }
