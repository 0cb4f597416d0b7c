package scheduling

import (
	"testing"

	"github.com/muster-dev/muster/internal/scheduling/estimate"
	"github.com/muster-dev/muster/internal/scheduling/placement"
)

// What one search has not found, another one looks for again only if it may find
// more.
func TestSearchesInVain(t *testing.T) {
	c := NewCore(Options{})
	c.SetNode(testNode("here", "A100", 8))
	entryOf := func(name string, members, gpus, priority int32) *entry {
		r := gang(name).role("worker", members, gpus).obj()
		r.Priority = priority
		c.SetRequest(r)
		return c.entries[r.UID]
	}
	avoid := &placement.NodeSet{}
	failed := search{wants: entryOf("failed", 2, 4, 1), cause: ForOverdue, need: estimate.Hour, gain: 1, avoid: avoid}
	tests := []struct {
		name   string
		change func(*search)
		want   bool
	}{
		{"the same", func(*search) {}, true},
		{"for longer work", func(s *search) { s.need *= 2 }, true},
		{"with more to gain", func(s *search) { s.cause, s.gain = ForShorter, 4 }, true},
		{"for what is less important", func(s *search) { s.wants = entryOf("less", 2, 4, 0) }, true},
		{"for what is more important", func(s *search) { s.wants = entryOf("more", 2, 4, 2) }, false},
		{"for shorter work", func(s *search) { s.need /= 2 }, false},
		{"for fewer", func(s *search) { s.wants = entryOf("fewer", 1, 4, 1) }, false},
		{"for smaller ones", func(s *search) { s.wants = entryOf("smaller", 2, 2, 1) }, false},
		{"for one that is entitled", func(s *search) { s.cause = ForGuarantee }, false},
		{"on other nodes", func(s *search) { s.avoid = &placement.NodeSet{} }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := failed
			tt.change(&s)
			c.inVain = []search{failed}
			if got := c.futile(&s); got != tt.want {
				t.Errorf("futile: %v, want %v", got, tt.want)
			}
			if c.inVain = nil; c.futile(&s) {
				t.Error("futile although nothing has failed")
			}
		})
	}
}
