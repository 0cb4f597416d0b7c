package progress

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"time"
)

const (
	// quiet is how long a folder must have been left alone before what was last
	// written there counts as saved.
	quiet = 5 * time.Second
	// chronic is after what time a file that is held open for writing is taken
	// for one that always is, and no save.
	chronic = 15 * time.Minute
	// calmLooks is how many looks a folder that is never left alone must have
	// been seen without anybody writing.
	calmLooks = 3
)

// State is what is known of a pod.
type State struct {
	// Said is true once the pod said how much is done: Done, from 0 to 1, at
	// the time Reported.
	Said     bool
	Done     float64
	Reported time.Time
	// Saved is when something was last completely saved; zero: not known.
	Saved time.Time
	// SaysSaved is true once the pod said itself when it saved: the folder no
	// longer counts.
	SaysSaved bool
	// Problem is why what was last reported cannot be read.
	Problem string
}

// Options are what an observer looks at.
type Options struct {
	// Root and Report are the file in which the pod reports: a folder, and the
	// name below it. An empty Report: it does not report.
	Root, Report string
	// Checkpoints is the folder in which it saves. Empty: none.
	Checkpoints string
	// Scan lists the entries of Checkpoints, after the first ones and at most so many, and reports
	// whether there are more. Nil: the observer walks through the folder itself.
	Scan func(skip, most int) ([]Entry, bool, error)
	// PIDs lists the processes that may write there.
	PIDs func() []int
	// Others says whether somebody else looks at that folder now, so that this
	// observer need not. Nil: nobody does.
	Others func() bool
	// Known is what an earlier observer of the same pod found.
	Known State
}

// Observer finds out how one pod is getting on. It is used by one goroutine at
// a time.
type Observer struct {
	options Options
	state   State
	walk    walk
	// open is since when files are seen to be held open for writing.
	open map[inode]time.Time
	// calm are the newest files at the last looks at which something had just
	// been written, and nobody was writing.
	calm []saved
}

// saved is a file and when it was written.
type saved struct {
	id   inode
	at   time.Time
	born int64
}

// New returns an observer that has not looked yet.
func New(o Options) *Observer {
	return &Observer{options: o, state: o.Known, walk: walk{root: o.Checkpoints, scan: o.Scan}, open: map[inode]time.Time{}}
}

// Close gives back what the observer holds open between two looks.
func (o *Observer) Close() { o.walk.close() }

// Look returns what is known now. Pause waits, for less than a second in all,
// and returns false when there is no more time for that.
func (o *Observer) Look(now time.Time, pause func(time.Duration) bool) State {
	o.listen(now, pause)
	if o.idle() {
		return o.state
	}
	f, err := o.walk.look(now)
	if err != nil {
		return o.state
	}
	if f.newest.After(o.state.Saved) || len(o.open) > 0 {
		o.consider(&f, now)
	}
	return o.state
}

// Last returns what is known once no process of the pod is left. Orderly is
// true for a pod that was not cut short: it ended well, or ended when it was
// told to; else what was written in its last seconds may be a part of something.
func (o *Observer) Last(now time.Time, orderly bool) State {
	o.listen(now, nil)
	if o.idle() {
		return o.state
	}
	o.walk.close()
	f, err := o.walk.look(now)
	if err != nil {
		return o.state
	}
	if busy, sure := writing(o.options.PIDs(), f.files); len(busy) > 0 || !sure {
		return o.state // others are at it
	}
	before := now
	if !orderly {
		before = now.Add(-quiet)
	}
	_, at := f.newestOf(func(_ inode, x file) bool { return !x.at.After(before) })
	o.state.Saved = later(o.state.Saved, at)
	return o.state
}

// idle reports that the folder is not to be looked at.
func (o *Observer) idle() bool {
	return o.options.Checkpoints == "" || o.state.SaysSaved || o.options.Others != nil && o.options.Others()
}

// listen takes in what the pod reports.
func (o *Observer) listen(now time.Time, pause func(time.Duration) bool) {
	if o.options.Report == "" {
		return
	}
	r, at, err := readReport(o.options.Root, o.options.Report, now, pause)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		o.state.Problem = ""
		return
	case err != nil:
		o.state.Problem = fmt.Sprintf("the file that MUSTER_PROGRESS names is not understood: %v", err)
		return
	}
	o.state.Problem = ""
	if r.Said {
		o.state.Said, o.state.Done, o.state.Reported = true, r.Done, at
	}
	if !r.Saved {
		return
	}
	if r.At.IsZero() || r.At.After(now) {
		r.At = at
	}
	if !o.state.SaysSaved {
		o.state.SaysSaved, o.state.Saved = true, time.Time{}
	}
	o.state.Saved = later(o.state.Saved, r.At)
}

// consider decides whether what a look found is a save.
func (o *Observer) consider(f *finding, now time.Time) {
	// 1. Not while anybody writes.
	always, busy := o.writers(f, now)
	if busy {
		o.calm = o.calm[:0]
		return
	}
	id, at := f.newestOf(func(i inode, _ file) bool { return !always[i] })
	if !f.whole {
		at = f.newest
	}
	if !at.After(o.state.Saved) {
		return
	}
	// 2. Once all was left alone for a while, it is.
	touched := f.touched
	if f.whole && len(always) > 0 {
		touched = at
	}
	if now.Sub(touched) >= quiet {
		o.state.Saved, o.calm = at, o.calm[:0]
		return
	}
	// 3. What saves so often that it is never left alone: the file that was the
	// newest some looks ago, if it was not written since. One that is written
	// in place all the time is never whole for long.
	if !f.whole {
		return
	}
	o.calm = append(o.calm, saved{id, at, f.files[id].born()})
	if len(o.calm) <= calmLooks {
		return
	}
	was := o.calm[0]
	o.calm = o.calm[1:]
	if x, there := f.files[was.id]; !there || x.at.Equal(was.at) || x.born() != was.born {
		o.state.Saved = later(o.state.Saved, was.at)
	}
}

// writers lists the files that somebody always has open for writing, and says
// whether any other is open, or cannot be told.
func (o *Observer) writers(f *finding, now time.Time) (always map[inode]bool, busy bool) {
	open, sure := writing(o.options.PIDs(), f.files)
	since := map[inode]time.Time{}
	for _, id := range open {
		if since[id] = now; !o.open[id].IsZero() {
			since[id] = o.open[id]
		}
		if now.Sub(since[id]) < chronic {
			busy = true
			continue
		}
		if always == nil {
			always = map[inode]bool{}
		}
		always[id] = true
	}
	o.open = since
	return always, busy || !sure
}

// Millionths is a part from 0 to 1 as a whole number of millionths.
func Millionths(done float64) int64 { return int64(math.Round(done * 1e6)) }
