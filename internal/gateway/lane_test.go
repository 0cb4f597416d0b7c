package gateway

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-dev/muster/internal/data"
)

// TestGather has changes come to a lane one after the other.
func TestGather(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		// answered and waiting are what the lane has just done, and who is there.
		answered, waiting int
		// every is how long after one another more come, and how many.
		every time.Duration
		more  int
		// each is how many bytes each of them has.
		each int
		// want is how many are taken, after how long.
		want  int
		after time.Duration
	}{
		"one alone never waits":          {waiting: 1, want: 1},
		"as many as were answered":       {answered: 3, every: 3 * ms, more: 9, want: 3, after: 9*ms + ms/2},
		"and who came meanwhile":         {answered: 3, waiting: 2, every: 3 * ms, more: 9, want: 5, after: 9*ms + ms/2},
		"who stays away is not missed":   {answered: 3, every: 3 * ms, more: 2, want: 2, after: 10*ms + ms/2},
		"nobody comes":                   {answered: 3, after: 4 * ms},
		"too slow after one another":     {answered: 3, every: 5 * ms, more: 9, after: 4 * ms},
		"not for ever":                   {answered: 99, every: 3 * ms, more: 99, want: 7, after: 24 * ms},
		"no more than a commit can have": {answered: 9, waiting: 2 * batchChanges, want: batchChanges},
		"nor more bytes":                 {answered: 99, waiting: 3, every: 3 * ms, more: 99, each: batchBytes / 4, want: 4, after: 3*ms + ms/2},
		"bytes for two commits":          {answered: 99, waiting: 9, each: batchBytes / 4, want: 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				one := func() *change { return &change{content: data.Content{Bytes: make([]byte, c.each)}} }
				l := &lane{gateway: &Gateway{o: Options{Gather: 24 * ms}}, arrived: make(chan struct{}, 1)}
				for range c.waiting {
					l.come(one())
				}
				if c.answered > 0 {
					l.expect(c.answered)
				}
				var coming sync.WaitGroup
				defer coming.Wait()
				coming.Go(func() {
					time.Sleep(ms / 2) // of the bubble's clock, so that no two things happen at once
					for range c.more {
						time.Sleep(c.every)
						l.come(one())
					}
				})
				begun := time.Now()
				l.gather()
				took := time.Since(begun)
				if got := len(l.take()); got != c.want || took != c.after {
					t.Errorf("%d after %s, want %d after %s", got, took, c.want, c.after)
				}
				if c.want == 0 && l.expected != 0 {
					t.Errorf("a lane that stops expects %d", l.expected)
				}
			})
		})
	}
}
