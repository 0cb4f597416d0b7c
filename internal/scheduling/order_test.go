package scheduling

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/scheduling/estimate"
)

func TestLengthClass(t *testing.T) {
	tests := []struct {
		left estimate.Span
		want int
	}{
		{-1, 0}, {0, 0}, {shortest, 0}, {shortest + 1, 1}, {2 * shortest, 1}, {2*shortest + 1, 2}, {4 * shortest, 2},
		{estimate.Hour, 6}, {24 * estimate.Hour, 11},
	}
	for _, tt := range tests {
		if got := lengthClass(tt.left); got != tt.want {
			t.Errorf("%d s is of class %d, want %d", tt.left/estimate.Second, got, tt.want)
		}
	}
}

func TestDueAfter(t *testing.T) {
	c := NewCore(Options{Patience: 6 * estimate.Hour})
	c.SetNode(testNode("a", "A100", 8))
	c.SetNode(testNode("b", "A100", 4))
	tests := []struct {
		name string
		gpus int64
		left estimate.Span
		want estimate.Span
	}{
		{"short work", 1, estimate.Hour, 6 * estimate.Hour},
		{"just short", 1, long, 6 * estimate.Hour},
		{"long work that needs less than a node", 7, 2 * long, 12 * estimate.Hour},
		{"long work that needs a whole node", 8, 20 * long, 6 * estimate.Hour},
		{"long work that needs several", 64, 20 * long, 6 * estimate.Hour},
		{"work without end", 1, 1 << 62, estimate.Span(1 << 61)},
	}
	for _, tt := range tests {
		got := c.dueAfter(&entry{gpus: tt.gpus * 1000}, tt.left)
		if got != tt.want && (tt.left < 1<<60 || got < 1<<55) {
			t.Errorf("%s: due after %d h, want %d h", tt.name, got/estimate.Hour, tt.want/estimate.Hour)
		}
	}
}

// Within a class of length the older goes first, so that a wrong estimate
// moves work by a class and not to the end.
func TestTurns(t *testing.T) {
	c := NewCore(Options{})
	for i, r := range []struct {
		created  Instant
		priority int32
		declared estimate.Span
	}{
		{5, 0, 40 * estimate.Hour}, {4, 0, 41 * estimate.Hour}, {3, 0, estimate.Hour},
		{2, 1, 90 * estimate.Hour}, {1, 0, 90 * estimate.Hour}, {6, 0, estimate.Hour},
	} {
		c.SetRequest(gang(fmt.Sprint(i)).role("worker", 1, 1).with(func(q *Request) {
			q.Created, q.Priority, q.Evidence.Declared = r.created, r.priority, r.declared
		}).obj())
	}
	var got []string
	for _, e := range c.waiting {
		got = append(got, e.req.Name)
	}
	if diff := cmp.Diff([]string{"3", "2", "5", "1", "0", "4"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !slices.IsSortedFunc(c.waiting, (*entry).before) {
		t.Error("the waiting are not in order")
	}
}

func TestWhatIsLearnedReordersTheWaiting(t *testing.T) {
	c := NewCore(Options{})
	like := func(user string) estimate.Evidence {
		return estimate.Evidence{Like: []string{user}, Declared: 10 * estimate.Hour}
	}
	c.SetRequest(gang("a-honest").role("worker", 1, 1).with(func(r *Request) { r.Created, r.Evidence = 1, like("honest") }).obj())
	c.SetRequest(gang("b-liar").role("worker", 1, 1).with(func(r *Request) { r.Created, r.Evidence = 2, like("liar") }).obj())
	if c.waiting[0].req.Name != "a-honest" {
		t.Fatal("of two that are alike the older goes first")
	}
	for range stale {
		c.Observe(like("liar"), 10*estimate.Minute)
	}
	c.Decide(10)
	if c.waiting[0].req.Name != "b-liar" {
		t.Error("work that always ends early does not go first, though that was seen often")
	}
}
