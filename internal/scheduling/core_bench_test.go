package scheduling

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/scheduling/placement"
	"github.com/muster-dev/muster/internal/scheduling/queue"
)

// The cluster on which is measured.
const (
	benchNodes  = 5000
	benchQueues = 200
	benchSecond = Instant(time.Second)
)

// benchSnapshot is a large cluster on which so many requests of one member
// hold so many GPUs each.
func benchSnapshot(held int, each int32) Snapshot {
	s := Snapshot{Now: 2 * benchSecond}
	for i := range benchQueues {
		s.Queues = append(s.Queues, queue.Spec{Name: fmt.Sprintf("q%03d", i), Weight: 1, Guaranteed: queue.Amounts{"gpu": 100 * placement.Whole}})
	}
	for i := range benchNodes {
		s.Nodes = append(s.Nodes, testNode(fmt.Sprintf("node-%05d", i), "A100", 8))
	}
	for i := range held {
		r := benchRequest(i, 1, each)
		r.Roles[0].Resources.MilliCPU = 1000
		node, at := i*int(each)/8, i*int(each)%8
		p := Placement{Gang: r.Key, UID: r.UID, Attempt: 1, Created: benchSecond}
		m := Assignment{Role: "worker", Node: s.Nodes[node].Name, Port: int32(20000 + at)}
		for g := range int(each) {
			m.GPUs = append(m.GPUs, s.Nodes[node].Devices[at+g].UUID)
		}
		p.Members = []PlacedMember{{Assignment: m, Resources: r.Roles[0].Resources}}
		s.Requests, s.Placements = append(s.Requests, r), append(s.Placements, p)
	}
	return s
}

func benchRequest(i int, replicas, gpus int32) Request {
	return gang(fmt.Sprintf("g%06d", i)).role("worker", replicas, gpus).with(func(r *Request) {
		r.Created, r.Queue, r.User, r.Resumes = benchSecond, fmt.Sprintf("q%03d", i%benchQueues), fmt.Sprintf("user-%d", i%500), true
	}).obj()
}

// percentiles reports the median and the 99th percentile.
func percentiles(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	if len(took) > 0 {
		b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, "p50-us")
		b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1e3, "p99-us")
	}
}

// One gang arrives on a cluster of which half is free, and is planned.
func BenchmarkArrival(b *testing.B) {
	c := load(benchSnapshot(2500, 8))
	now := 10 * benchSecond
	c.Decide(now)
	var took []time.Duration
	b.ReportAllocs()
	for b.Loop() {
		now += benchSecond
		began := time.Now()
		c.SetRequest(benchRequest(1_000_000, 4, 8))
		if len(c.Decide(now).Plans) != 1 {
			b.Fatal("it is not planned")
		}
		took = append(took, time.Since(began))
		c.Drop("uid-g1000000")
	}
	percentiles(b, took)
}

// A full cluster, 2,000 gangs that wait in 200 queues, one job's end.
func BenchmarkFullPass(b *testing.B) {
	c := load(benchSnapshot(5000, 8))
	random := rand.New(rand.NewPCG(1, 1))
	for i := range 2000 {
		c.SetRequest(benchRequest(100_000+i, int32(1+random.IntN(16)), int32(1+random.IntN(8))))
	}
	now := 10 * benchSecond
	var took []time.Duration
	b.ReportAllocs()
	for b.Loop() {
		if len(c.running) > 1000 {
			c.Drop(c.running[0].req.UID)
		}
		now += benchSecond
		began := time.Now()
		c.Decide(now)
		took = append(took, time.Since(began))
	}
	percentiles(b, took)
}

// One event of a watch is told to a core of that size: a node that reports,
// a request that changes, a request that comes and goes.
func BenchmarkEvent(b *testing.B) {
	c := load(benchSnapshot(5000, 8))
	node := testNode("node-00007", "A100", 8)
	changed := testNode("node-00007", "A100", 7)
	request := benchRequest(7, 1, 8)
	for _, event := range []struct {
		name string
		tell func(i int)
	}{
		{"node", func(int) { c.SetNode(node) }},
		{"node, other devices", func(i int) { c.SetNode([]Node{node, changed}[i%2]) }},
		{"placed request", func(int) { c.SetRequest(request) }},
		{"new request and its end", func(int) {
			c.SetRequest(benchRequest(1_000_000, 4, 8))
			c.Drop("uid-g1000000")
		}},
	} {
		b.Run(event.name, func(b *testing.B) {
			var took []time.Duration
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				began := time.Now()
				event.tell(i)
				took = append(took, time.Since(began))
				i++
			}
			percentiles(b, took)
		})
	}
}

// A core that knows nothing is shown 5,000 nodes and 20,000 holdings.
func BenchmarkRestart(b *testing.B) {
	s := benchSnapshot(20_000, 2)
	b.ReportAllocs()
	for b.Loop() {
		NewCore(Options{}).Sync(s)
	}
}

// A core is shown the same snapshot once more.
func BenchmarkSyncOfNothingNew(b *testing.B) {
	s := benchSnapshot(20_000, 2)
	c := NewCore(Options{})
	c.Sync(s)
	b.ReportAllocs()
	for b.Loop() {
		c.Sync(s)
	}
}
