package collector

import (
	"context"
	"runtime"
	"runtime/debug"
	"time"
)

// How much may be allocated before the collector comes, in percent of what is
// in use.
const (
	atStart = 400
	atRush  = 150
	atWork  = 50
)

const (
	// often is how soon after one collection another means a rush.
	often = time.Second
	// calm is how long after the last collection a rush is over.
	calm = 5 * time.Second
)

// Start lets the process put itself together undisturbed. It is followed by
// [Tend].
func Start() { debug.SetGCPercent(atStart) }

// Tend waits until the caches are filled, so long after this moment, gives back
// what the start needed, and then gives room in every rush, until ctx ends.
func Tend(ctx context.Context, filled time.Duration) {
	select {
	case <-time.After(filled):
	case <-ctx.Done():
		return
	}
	tend(ctx, func(percent int) { debug.SetGCPercent(percent) }, debug.FreeOSMemory)
}

func tend(ctx context.Context, set func(percent int), free func()) {
	set(atWork)
	free()
	collected := make(chan struct{}, 1)
	over := time.NewTimer(calm)
	over.Stop()
	defer over.Stop()
	var last time.Time
	for rush := false; ; {
		announce(collected)
		select {
		case <-ctx.Done():
			return
		case <-collected:
			now := time.Now()
			if !rush && now.Sub(last) < often {
				rush = true
				set(atRush)
			}
			last = now
			if rush {
				over.Reset(calm)
			}
		case <-over.C:
			rush = false
			set(atWork)
			free()
		}
	}
}

// announce sends once after the next collection.
func announce(collected chan<- struct{}) {
	// Larger than what the allocator puts together with other things.
	sentinel := new([64]byte)
	runtime.AddCleanup(sentinel, func(to chan<- struct{}) {
		select {
		case to <- struct{}{}:
		default:
		}
	}, collected)
}
