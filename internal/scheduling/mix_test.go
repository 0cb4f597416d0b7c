package scheduling

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/scheduling/estimate"
)

// What comes is learned: halves of a GPU that come in hundreds make a core put
// one beside the other, on the node where the other half is of no use to
// anybody else.
func TestMixIsCounted(t *testing.T) {
	share := func(i int, created Instant) Request {
		r := gang(fmt.Sprintf("s%03d", i)).role("w", 1, 0).obj()
		r.Roles[0].Share, r.Created = Share{Milli: 500}, created
		return r
	}
	big := gang("big").role("w", 1000, 8).obj()
	big.Created = 7
	unsupported := gang("never").role("w", 3, 2).obj()
	unsupported.Unsupported = "spec.x"
	tests := []struct {
		name string
		tell func(c *Core)
		want map[string]int64
	}{
		{"each member counts", func(c *Core) { c.SetRequest(share(1, 5)); c.SetRequest(share(2, 6)) }, map[string]int64{"0 GPUs 500": 128}},
		{"once", func(c *Core) { c.SetRequest(share(1, 5)); c.SetRequest(share(1, 5)) }, map[string]int64{"0 GPUs 500": 64}},
		{"of a huge gang only some", func(c *Core) { c.SetRequest(big) }, map[string]int64{"8 GPUs 0": 64 * 64}},
		{"what cannot be honoured does not", func(c *Core) { c.SetRequest(unsupported) }, map[string]int64{}},
		{"what was counted before does not", func(c *Core) {
			c.RecallMix(Mix{Newest: 5, Kinds: []MixKind{{ShareMilli: 500, Count: 640}}})
			c.SetRequest(share(1, 5))
			c.SetRequest(share(2, 6))
		}, map[string]int64{"0 GPUs 500": 704}},
		{"nonsense that was kept does not", func(c *Core) {
			c.RecallMix(Mix{Kinds: []MixKind{{GPUs: -1, Count: 64}, {GPUs: 1, Count: -3}, {GPUs: 2, Count: 1 << 60}, {GPUs: 4, Count: 64}}})
		}, map[string]int64{"4 GPUs 0": 64}},
		{"half after a while", func(c *Core) {
			c.SetRequest(share(1, 5))
			c.Decide(6)
			c.Decide(6 + Instant(halfLife))
		}, map[string]int64{"0 GPUs 500": 32}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := NewCore(Options{})
			tt.tell(c)
			got := map[string]int64{}
			for _, k := range c.Mix().Kinds {
				got[fmt.Sprintf("%d GPUs %d", k.GPUs, k.ShareMilli)] += k.Count
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("counts, -want +got:\n%s", diff)
			}
		})
	}
}

// What usually comes decides what is spared: one GPU is taken from the node
// whose rest is of least use to it.
func TestMixDecides(t *testing.T) {
	for _, tt := range []struct {
		name   string
		comes  int32 // GPUs of what usually comes
		onNode string
	}{
		// n3 has three GPUs free and n4 four.
		{"pairs usually come, and three leave a pair where four do too", 2, "n3"},
		{"threes usually come, so three are spared", 3, "n4"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := NewCore(Options{})
			c.SetNode(testNode("n3", "A100", 3))
			c.SetNode(testNode("n4", "A100", 4))
			for i := range 200 {
				r := gang(fmt.Sprintf("past%03d", i)).role("w", 1, tt.comes).obj()
				c.SetRequest(r)
				c.Drop(r.UID)
			}
			c.SetRequest(gang("one").role("w", 1, 1).obj())
			plans := c.Decide(Instant(estimate.Hour)).Plans
			if len(plans) != 1 || plans[0].Members[0].Node != tt.onNode {
				t.Errorf("planned %+v, want it on %s", plans, tt.onNode)
			}
		})
	}
}

// What one core learned, another one goes on from, by way of JSON.
func TestMixIsKept(t *testing.T) {
	a, b := NewCore(Options{}), NewCore(Options{})
	for i := range 300 {
		r := gang(fmt.Sprintf("g%03d", i)).role("w", int32(1+i%3), int32(i%9), "A100", "H100").obj()
		r.Created = Instant(i + 1)
		a.SetRequest(r)
	}
	text, err := json.Marshal(a.Mix())
	if err != nil {
		t.Fatal(err)
	}
	var kept Mix
	if err := json.Unmarshal(text, &kept); err != nil {
		t.Fatal(err)
	}
	b.RecallMix(kept)
	if diff := cmp.Diff(a.Mix(), b.Mix()); diff != "" {
		t.Errorf("-learned +recalled:\n%s", diff)
	}
}
