package explanation

import (
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/scheduling"
)

// TestANodeThatIsNotReadyComesFirst: a smaller request is not the first advice if a node that is not
// ready has the missing GPUs.
func TestANodeThatIsNotReadyComesFirst(t *testing.T) {
	silent := func(node string, count int) scheduling.Withheld {
		return scheduling.Withheld{Node: node, Model: "A100", Count: count, NotReady: "Kubelet stopped posting node status."}
	}
	unowned := scheduling.Withheld{Node: "theirs", Model: "A100", Count: 8}
	const fewer = "ask for 2 workers instead of 4"
	for name, c := range map[string]struct {
		reason scheduling.Reason
		want   string
	}{
		"its node":             {scheduling.TooLarge{Resource: "gpu", Need: 4, Have: 2, Withheld: []scheduling.Withheld{unowned, silent("two", 2)}}, "Sooner:   make node two ready again: it has the missing GPUs\n            or: " + fewer},
		"two nodes":            {scheduling.ShortOfGPUs{Need: 4, Withheld: []scheduling.Withheld{silent("one", 2), silent("two", 2)}}, "Sooner:   make these nodes ready again, they have the missing GPUs: one, two\n"},
		"one node of several":  {scheduling.TooLarge{Resource: "gpu", Role: "worker", Need: 4, Have: 2, Withheld: []scheduling.Withheld{silent("one", 4), silent("two", 8)}}, "Sooner:   make one of these nodes ready again, each has the missing GPUs: one, two\n"},
		"too few":              {scheduling.TooLarge{Resource: "gpu", Need: 5, Have: 2, Withheld: []scheduling.Withheld{silent("two", 2)}}, "Sooner:   " + fewer},
		"too few on each node": {scheduling.TooLarge{Resource: "gpu", Role: "worker", Need: 4, Have: 2, Withheld: []scheduling.Withheld{silent("one", 3), silent("two", 3)}}, "Sooner:   " + fewer},
		"nodes of others":      {scheduling.TooLarge{Resource: "gpu", Need: 4, Have: 2, Withheld: []scheduling.Withheld{unowned}}, "Sooner:   " + fewer},
		"another reason":       {scheduling.Paused{Words: "paused"}, "Sooner:   " + fewer},
	} {
		t.Run(name, func(t *testing.T) {
			x := scheduling.Explanation{Reason: c.reason, Advice: []scheduling.Advice{scheduling.FewerMembers{Role: "worker", From: 4, To: 2}}}
			var out strings.Builder
			if err := New(x, func(scheduling.Instant) string { return time.Time{}.String() }).Write(&out); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out.String(), c.want) {
				t.Errorf("%q does not contain %q", out.String(), c.want)
			}
		})
	}
}
