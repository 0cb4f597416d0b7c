package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/scheduling/placement"
	"github.com/muster-dev/muster/internal/scheduling/queue"
)

// The work on which passes are measured.
const (
	passingGangs    = 2000
	passingQueues   = 200
	passingHoldings = 20_000
	second          = scheduling.Instant(time.Second)
)

// passingNode is one of the nodes of the whole core.
func passingNode(i int) scheduling.Node {
	node := scheduling.Node{Name: fmt.Sprintf("node-%05d", i), Allocatable: scheduling.Resources{MilliCPU: 96_000, Memory: 768 << 30, Pods: 250}}
	for g := range decidingGPUs {
		node.Devices = append(node.Devices, scheduling.Device{UUID: fmt.Sprintf("%05d-%d", i, g), Index: g, Model: "A100"})
	}
	return node
}

// passingRequest is a gang in one of the queues.
func passingRequest(i int, created scheduling.Instant, replicas, gpus int32) scheduling.Request {
	name := fmt.Sprintf("gang-%06d", i)
	return scheduling.Request{
		Key: scheduling.Key{Namespace: fmt.Sprintf("team-%d", i%passingQueues), Name: name}, UID: name,
		Queue: passingQueue(i), Created: created, User: fmt.Sprintf("user-%d", i%500), Resumes: true,
		Roles: []scheduling.Role{{Name: "worker", Replicas: replicas, GPUs: gpus, Resources: scheduling.Resources{MilliCPU: 1000, Pods: 1}}},
	}
}

func passingQueue(i int) string { return fmt.Sprintf("queue-%03d", i%passingQueues) }

// passingSnapshot is a cluster that is full of so many requests.
func passingSnapshot(holdings int, each int32) scheduling.Snapshot {
	s := scheduling.Snapshot{Now: 2 * second}
	for i := range passingQueues {
		// All guarantees together are half of the cluster.
		guaranteed := int64(decidingNodes * decidingGPUs / passingQueues / 2 * placement.Whole)
		s.Queues = append(s.Queues, queue.Spec{Name: passingQueue(i), Weight: int64(1 + i%4), Guaranteed: queue.Amounts{queue.NameGPU: guaranteed}})
	}
	for i := range decidingNodes {
		s.Nodes = append(s.Nodes, passingNode(i))
	}
	for i := range holdings {
		r := passingRequest(i, second, 1, each)
		node, at := i*int(each)/decidingGPUs, i*int(each)%decidingGPUs
		m := scheduling.Assignment{Role: "worker", Node: s.Nodes[node].Name}
		for g := range int(each) {
			m.GPUs = append(m.GPUs, s.Nodes[node].Devices[at+g].UUID)
		}
		s.Requests = append(s.Requests, r)
		s.Placements = append(s.Placements, scheduling.Placement{
			Gang: r.Key, UID: r.UID, Attempt: 1, Created: second,
			Members: []scheduling.PlacedMember{{Assignment: m, Resources: r.Roles[0].Resources}},
		})
	}
	return s
}

// passing measures the whole core: a restart, single events, single arrivals,
// and passes in which everything is held and gangs wait in many queues.
func (b *bench) passing(ctx context.Context) error {
	snapshot := passingSnapshot(passingHoldings, decidingNodes*decidingGPUs/passingHoldings)
	began := time.Now()
	scheduling.NewCore(scheduling.Options{}).Sync(snapshot)
	b.table.add("restart: 5,000 nodes and 20,000 holdings are read in", millis(time.Since(began)), "Volcano 8 min 17 s to its first bind")
	core := scheduling.NewCore(scheduling.Options{})
	core.Sync(passingSnapshot(decidingNodes, decidingGPUs))
	b.telling(core)
	if err := b.arriving(core); err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(1, 1))
	for i := range passingGangs {
		core.SetRequest(passingRequest(decidingNodes+i, 3*second, int32(1+random.IntN(16)), int32(1+random.IntN(decidingGPUs))))
	}
	var took []time.Duration
	now := 100_000 * second
	for i := range 11 {
		if err := ctx.Err(); err != nil {
			return err
		}
		core.Drop(fmt.Sprintf("gang-%06d", i))
		now += second
		began := time.Now()
		core.Decide(now)
		took = append(took, time.Since(began))
	}
	first := took[0]
	slices.Sort(took)
	b.table.check("full pass: 5,000 nodes held, 2,000 gangs wait in 200 queues", millis(took[10]), "<= 50 ms", took[10] <= 50*time.Millisecond,
		fmt.Sprintf("slowest of 11, each after one job's end; all are overdue, and evictions are looked for; the first %s, median %s; KAI 2.5 s a cycle", millis(first), millis(took[5])))
	return nil
}

// telling measures what it takes to tell the core of one event of a watch.
func (b *bench) telling(core *scheduling.Core) {
	const n = 2000
	var took []time.Duration
	node := passingNode(7)
	other := passingNode(7)
	other.Devices = other.Devices[:decidingGPUs-1]
	for i := range n {
		began := time.Now()
		switch i % 4 {
		case 0:
			core.SetNode(other)
		case 1:
			core.SetNode(node)
		case 2:
			core.SetRequest(passingRequest(1_000_000, 3*second, 4, decidingGPUs))
		default:
			core.Drop("gang-1000000")
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.table.check("one event of a watch, 5,000 nodes", micros(took[n/2]), "<= 20 us", took[n/2] <= 20*time.Microsecond,
		fmt.Sprintf("median of %d nodes and requests that change; p99 %s", n, micros(took[n*99/100])))
}

// arriving measures a gang's arrival where there is room for it, and the
// decision that plans it.
func (b *bench) arriving(core *scheduling.Core) error {
	const n = 500
	now := 3 * second
	for i := range 8 {
		core.Drop(fmt.Sprintf("gang-%06d", decidingNodes-1-i))
	}
	var took []time.Duration
	for range n {
		now += second
		began := time.Now()
		core.SetRequest(passingRequest(1_000_000, now, 4, decidingGPUs))
		if len(core.Decide(now).Plans) != 1 {
			return fmt.Errorf("a gang of 4 x %d GPUs was not planned on 8 free nodes", decidingGPUs)
		}
		took = append(took, time.Since(began))
		core.Drop("gang-1000000")
	}
	slices.Sort(took)
	b.table.add("one arrival and its decision, 5,000 nodes", micros(took[n/2]), fmt.Sprintf("a gang of 4 x 8 GPUs; median of %d, p99 %s", n, micros(took[n*99/100])))
	return nil
}
