package scheduling

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/muster-dev/muster/internal/scheduling/estimate"
)

// crowd is a core with so many full nodes and gangs that wait.
func crowd(tb testing.TB, nodes, waiting int) (*Core, Instant) {
	tb.Helper()
	c := NewCore(Options{})
	for i := range nodes {
		n := testNode(fmt.Sprintf("node-%05d", i), "A100", 8)
		n.Allocatable.Memory = 512 << 30
		n.Ports = nil
		c.SetNode(n)
	}
	random := rand.New(rand.NewPCG(1, 1))
	second := Instant(estimate.Second)
	for i := range nodes {
		r := gang(fmt.Sprintf("held-%05d", i)).role("worker", 1, 8).obj()
		r.Created, r.Evidence = second, estimate.Evidence{Declared: estimate.Hour * estimate.Span(1+random.IntN(100))}
		c.SetRequest(r)
	}
	if n := len(c.Decide(2 * second).Plans); n != nodes {
		tb.Fatalf("%d of %d nodes are held", n, nodes)
	}
	for i := range waiting {
		r := gang(fmt.Sprintf("waits-%05d", i)).role("worker", int32(1+random.IntN(16)), int32(1+random.IntN(8)), "A100").obj()
		r.Created, r.User = 3*second+Instant(i), fmt.Sprintf("user-%d", i%50)
		r.Evidence = estimate.Evidence{Limit: estimate.Hour * estimate.Span(1+random.IntN(100))}
		c.SetRequest(r)
	}
	c.Decide(10 * second)
	return c, 10 * second
}

func BenchmarkExplain(b *testing.B) {
	c, now := crowd(b, 5000, 2000)
	for _, which := range []int{0, 1000, 1999} {
		uid := c.waiting[which].req.UID
		b.Run(fmt.Sprint("turn-", which), func(b *testing.B) {
			for b.Loop() {
				if _, ok := c.Explain(uid, now); !ok {
					b.Fatal("no such request")
				}
			}
		})
	}
}
