package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/muster-dev/muster/internal/scheduling/placement"
)

// The cluster on which single decisions are measured.
const (
	decidingNodes = 5000
	decidingGPUs  = 8
)

// asks are what is placed: shares of a GPU, single GPUs and gangs' members.
var asks = []placement.Ask{
	{MilliCPU: 2000, MemoryBytes: 4 << 30, ShareMilli: 250},
	{MilliCPU: 4000, MemoryBytes: 8 << 30, ShareMilli: 500},
	{MilliCPU: 4000, MemoryBytes: 16 << 30, GPUs: 1},
	{MilliCPU: 8000, MemoryBytes: 32 << 30, GPUs: 1, Models: []string{"A100"}},
	{MilliCPU: 8000, MemoryBytes: 32 << 30, GPUs: 2},
	{MilliCPU: 16000, MemoryBytes: 64 << 30, GPUs: 4},
	{MilliCPU: 64000, MemoryBytes: 256 << 30, GPUs: 8},
	{MilliCPU: 4000, MemoryBytes: 8 << 30},
}

// deciding measures single decisions on 5,000 nodes of 8 GPUs.
func (b *bench) deciding(ctx context.Context) error {
	if err := b.placing(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := b.planning(); err != nil {
		return err
	}
	return b.passing(ctx)
}

// large makes the cluster and the classes.
func large() (*placement.Cluster, []placement.Class, error) {
	cluster := placement.New(placement.Options{Seed: 1})
	models := []string{"A100", "T4"}
	for i := range decidingNodes {
		spec := placement.NodeSpec{Name: fmt.Sprintf("node-%05d", i), MilliCPU: 96_000, MemoryBytes: 768 << 30}
		for g := range decidingGPUs {
			spec.Devices = append(spec.Devices, placement.DeviceSpec{UUID: fmt.Sprintf("gpu-%d", g), Model: models[i%2], MemoryMiB: 40 << 10})
		}
		if _, err := cluster.SetNode(spec); err != nil {
			return nil, nil, err
		}
	}
	classes := make([]placement.Class, len(asks))
	for i, ask := range asks {
		class, err := cluster.Class(ask)
		if err != nil {
			return nil, nil, err
		}
		classes[i] = class
	}
	return cluster, classes, nil
}

// placing measures one placement while others come and go, at rising load.
func (b *bench) placing() error {
	for _, full := range []int64{0, 50, 95} {
		cluster, classes, err := large()
		if err != nil {
			return err
		}
		random := rand.New(rand.NewPCG(1, uint64(full)))
		var seats []placement.Seat
		total := cluster.Totals().FreeMilli
		for cluster.Totals().FreeMilli*100 > total*(100-full) {
			seat, ok := cluster.Place(classes[random.IntN(len(classes))], placement.Scope{})
			if ok {
				seats = append(seats, seat)
			}
		}
		const warmUp, n = 2000, 20_000
		took := make([]time.Duration, 0, n)
		seats = slices.Grow(seats, warmUp+n)
		var before, after runtime.MemStats
		for i := range warmUp + n {
			if i == warmUp {
				runtime.ReadMemStats(&before)
			}
			// As much goes as comes, so that the load stays.
			if len(seats) > 0 && random.IntN(2) == 0 || len(seats) > 0 && full > 0 {
				at := random.IntN(len(seats))
				cluster.Release(seats[at])
				seats[at] = seats[len(seats)-1]
				seats = seats[:len(seats)-1]
			}
			class := classes[random.IntN(len(classes))]
			began := time.Now()
			seat, ok := cluster.Place(class, placement.Scope{})
			if d := time.Since(began); i >= warmUp {
				took = append(took, d)
			}
			if ok {
				seats = append(seats, seat)
			}
		}
		runtime.ReadMemStats(&after)
		slices.Sort(took)
		p50, p99 := took[n/2], took[n*99/100]
		allocations := float64(after.Mallocs-before.Mallocs) / n
		name := fmt.Sprintf("one scored placement, 5,000 x 8, %d %% full: ", full)
		b.table.check(name+"p50", micros(p50), "<= 30 us", p50 <= 30*time.Microsecond, "kube-scheduler about 1.2 ms")
		b.table.check(name+"p99", micros(p99), "<= 100 us", p99 <= 100*time.Microsecond, "")
		b.table.check(name+"allocations", fmt.Sprintf("%.3f", allocations), "0", allocations < 0.01, "with the release before it")
	}
	return nil
}

// planning measures a gang of 1,000 x 4 GPUs, and the verdict that one does
// not fit.
func (b *bench) planning() error {
	cluster, classes, err := large()
	if err != nil {
		return err
	}
	member := classes[5]
	seats := make([]placement.Seat, 0, 1000)
	place := func() time.Duration {
		began := time.Now()
		mark := cluster.Mark()
		seats = cluster.PlaceMany(member, 1000, placement.Scope{}, seats[:0])
		took := time.Since(began)
		cluster.Undo(mark)
		return took
	}
	first := place()
	if len(seats) != 1000 {
		return fmt.Errorf("only %d members of 1,000 found a place on empty nodes", len(seats))
	}
	var took []time.Duration
	for range 21 {
		took = append(took, place())
	}
	slices.Sort(took)
	b.table.check("place a gang of 1,000 x 4 GPUs on 5,000 nodes", millis(took[10]), "<= 5 ms", took[10] <= 5*time.Millisecond,
		fmt.Sprintf("median of 21, the first %s; kube-scheduler over 1 s", millis(first)))
	// Full but for one GPU in every second node: the sums say yes.
	if full := cluster.PlaceMany(classes[6], decidingNodes/2, placement.Scope{}, nil); len(full) != decidingNodes/2 {
		return fmt.Errorf("only %d nodes could be filled", len(full))
	}
	for {
		if _, ok := cluster.Place(classes[4], placement.Scope{}); !ok {
			break
		}
		if cluster.Totals().FreeMilli < 3000*placement.Whole {
			break
		}
	}
	took = took[:0]
	var impossible bool
	for range 101 {
		began := time.Now()
		impossible = cluster.CannotFit(member, 1000, placement.Scope{})
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.table.check("verdict that a gang of 1,000 x 4 GPUs does not fit", micros(took[50]), "<= 200 us",
		impossible && took[50] <= 200*time.Microsecond, fmt.Sprintf("median of 101, %d GPUs free", cluster.Totals().FreeMilli/placement.Whole))
	return nil
}

func micros(d time.Duration) string {
	return fmt.Sprintf("%.1f us", float64(d.Nanoseconds())/1e3)
}

func millis(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1e3)
}
