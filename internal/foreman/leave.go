package foreman

import (
	"path/filepath"
	"strings"
	"time"

	"github.com/muster-dev/muster/internal/foreman/parcel"
)

// A follower may go before its leader is done, and another pod take its place in the same
// attempt. Where it goes in order, which is where it brings a part that says so, that part
// counts with all others of the attempt. Where it goes without, what it wrote is lost, and
// the leader is told so in place of being taken for done: all members have to begin anew.

// leftMark is, in the name of the folder of one who left, before the name of its pod. No
// member is called so.
const leftMark = ".left."

// unheardFor is for how long a pod that has begun and has not brought its part may not be
// heard before it is lost. It asks all the time, every few seconds.
const unheardFor = 2 * time.Minute

// leftFolder is the name of the folder of the part of a pod that left in order.
func leftFolder(who *person) string { return who.folder() + leftMark + who.Pod }

// mayLeave says why a part does not come from one who left in order, if it says so and
// does not.
func (w *Work) mayLeave(p *part) error {
	switch {
	case !p.Outcome.Left:
		return nil
	case w.spec.Leader == "" || p.Member == w.spec.Leader || p.Outcome.Error != "":
		return parcel.Refuse("member %s says that it left in order: only one that follows can, and that has not failed", p.Member)
	case strings.ContainsAny(p.Pod, `/\`):
		return parcel.Refuse("pod %q says that it left in order: that is no name of a pod", p.Pod)
	}
	return nil
}

// left says that a pod has left in order; the caller holds the lock of parts.
func (w *Work) left(who *person) bool {
	var p part
	return readJSON(filepath.Join(w.dir, partsFolder, leftFolder(who), partFile), &p) && w.counts(&p.person)
}

// late says that the leader of who asks is done already, in its own attempt; the caller
// holds the lock of parts.
func (w *Work) late(who *person) bool {
	if w.spec.Leader == "" || who.Member == w.spec.Leader {
		return false
	}
	w.mu.Lock()
	closing := w.closing != nil && *w.closing == term{job: who.Job, attempt: who.Attempt}
	w.mu.Unlock()
	leader, brought := person{Member: w.spec.Leader}, part{}
	return closing || readJSON(filepath.Join(w.dir, partsFolder, leader.folder(), partFile), &brought) &&
		w.counts(&brought.person) && brought.Attempt == who.Attempt && brought.Outcome.Error == ""
}

// presence is when a pod was heard last, and how many answers it waits for now.
type presence struct {
	at   time.Time
	asks int
}

// hears notes that a pod asks something; what is returned, that it has its answer.
func (w *Work) hears(who *person) func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.heardOf[who.Pod]
	if p == nil {
		p = &presence{}
		w.heardOf[who.Pod] = p
	}
	p.asks++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		p.asks--
		p.at = w.foreman.o.Now()
	}
}

// lost names a member of a leader's attempt a pod of which has begun and will bring
// nothing any more: it said so, or it is not heard; empty: there is none.
func (w *Work) lost(leader *part, began []person, there []part) string {
	said := map[string]bool{}
	for i := range there {
		said[there[i].Pod] = there[i].Outcome.Error == ""
	}
	for i := range began {
		p := &began[i]
		if p.Attempt != leader.Attempt || p.Member == leader.Member {
			continue
		}
		if good, brought := said[p.Pod]; brought && !good || !brought && w.silent(p) {
			return p.Member
		}
	}
	return ""
}

// silent says that a pod was not heard for long.
func (w *Work) silent(who *person) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := w.opened
	if p := w.heardOf[who.Pod]; p != nil {
		if p.asks > 0 {
			return false
		}
		if p.at.After(last) {
			last = p.at
		}
	}
	return w.foreman.o.Now().Sub(last) > unheardFor
}
