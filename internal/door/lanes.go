package door

import (
	"time"

	"github.com/muster-dev/muster/internal/turns"
)

// lanes are those of the door.
type lanes struct {
	// up is for code that is sent; each holds up to 16 MiB of it in memory.
	up *turns.Lane
	// down is for code that is read; each may hold as much.
	down *turns.Lane
	// answer is for looks at the whole cluster.
	answer *turns.Lane
	// report is for what agents say of pods, some writes each.
	report *turns.Lane
	// read is for parts of data, which are short and many, and store for packs that
	// are sent; neither holds more than some kilobytes in memory.
	read, store *turns.Lane
	// shift is for workers of pipelines, who wait long for an answer, and for the
	// files of what they compute.
	shift *turns.Lane
	// ahead is for agents that wait for orders, one question each.
	ahead *turns.Lane
}

func newLanes(now func() time.Time) lanes {
	lane := func(wide, each int) *turns.Lane { return turns.New(wide, each, now) }
	out := lanes{up: lane(6, 2), down: lane(24, 8), answer: lane(4, 2), report: lane(8, 1)}
	out.read, out.store, out.shift = lane(96, 64), lane(24, 16), lane(2048, 512)
	out.ahead = lane(16384, 2)
	// What came whole is kept, and of what is read the rest is asked for.
	out.up.Resumes, out.store.Resumes, out.read.Resumes = true, true, true
	return out
}
