package packing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/muster-dev/muster/internal/scheduling/placement"
	"github.com/muster-dev/muster/internal/simulate/trace"
)

// Levels are the arrivals at which the allocation is read, in percent of the
// cluster's GPUs, rising.
var Levels = []int{80, 90, 95, 100, 105, 110, 120, 130}

// Learning says what a policy that looks at the workload may know of it.
type Learning uint8

// What may be known.
const (
	// FromTrace: the mix of the whole trace, before the first arrival, as the
	// published figures assume.
	FromTrace Learning = iota
	// FromArrivals: only what arrived so far.
	FromArrivals
)

// Options are what to measure.
type Options struct {
	// Mix is the name of the trace in the rows.
	Mix   string
	Nodes []trace.OpenbNode
	Pods  []trace.OpenbPod
	// Policy places the pods.
	Policy placement.Policy
	// Seeds are the runs.
	Seeds []uint64
	// Learning is what the policy may know.
	Learning Learning
	// Memory says that host memory counts.
	Memory bool
	// Progress, if not nil, is called after every run.
	Progress func(done, of int)
}

// Row is one run.
type Row struct {
	Mix    string `json:"mix"`
	Policy string `json:"policy"`
	Seed   uint64 `json:"seed"`
	// AllocationPercent is by level.
	AllocationPercent []float64 `json:"allocationPercent"`
	// Arrived and Dropped count pods.
	Arrived int `json:"arrived"`
	Dropped int `json:"dropped"`
}

// Seeds are the first n of the seeds that are used where none are given.
func Seeds(n int) []uint64 {
	seeds := make([]uint64, n)
	for i := range seeds {
		seeds[i] = 42 + uint64(i)
	}
	return seeds
}

// Run measures one policy on one mix, seed by seed.
func Run(ctx context.Context, o *Options) ([]Row, error) {
	if len(o.Nodes) == 0 || len(o.Pods) == 0 {
		return nil, errors.New("packing needs at least one node and one pod")
	}
	rows := make([]Row, 0, len(o.Seeds))
	for i, seed := range o.Seeds {
		row, err := o.run(ctx, seed)
		if err != nil {
			return nil, fmt.Errorf("packing %s with %s, seed %d: %w", o.Mix, o.Policy, seed, err)
		}
		rows = append(rows, row)
		if o.Progress != nil {
			o.Progress(i+1, len(o.Seeds))
		}
	}
	return rows, nil
}

// Mean is the mean allocation of the rows, by level.
func Mean(rows []Row) []float64 {
	mean := make([]float64, len(Levels))
	for _, r := range rows {
		for i, v := range r.AllocationPercent {
			mean[i] += v / float64(len(rows))
		}
	}
	return mean
}

// world is one run on its way.
type world struct {
	o     *Options
	c     *placement.Cluster
	draw  stream
	total int64 // of the cluster, in milli-GPU
	// kinds are the distinct asks, of says which each pod makes, and mix learns
	// from those that arrived.
	kinds   []kind
	of      []int
	classes []placement.Class
	mix     placement.Mix
}

// run is one run.
func (o *Options) run(ctx context.Context, seed uint64) (Row, error) {
	row := Row{Mix: o.Mix, Policy: o.Policy.String(), Seed: seed}
	w, err := o.world(seed)
	if err != nil {
		return row, err
	}
	order := w.draw.shuffle(len(o.Pods))
	var arrived, held int64
	for level := 0; level < len(Levels); row.Arrived++ {
		if row.Arrived%256 == 0 && ctx.Err() != nil {
			return row, ctx.Err()
		}
		var at int
		if row.Arrived < len(order) {
			at = order[row.Arrived]
		} else {
			at = w.draw.below(len(o.Pods))
		}
		if err := w.learn(row.Arrived, w.of[at]); err != nil {
			return row, err
		}
		demand := o.Pods[at].DemandMilli()
		arrived += demand
		if _, ok := w.c.Place(w.classes[w.of[at]], placement.Scope{}); ok {
			held += demand
		} else {
			row.Dropped++
		}
		for ; level < len(Levels) && arrived*100 >= w.total*int64(Levels[level]); level++ {
			row.AllocationPercent = append(row.AllocationPercent, float64(held)*100/float64(w.total))
		}
	}
	return row, nil
}

// world is the beginning of a run.
func (o *Options) world(seed uint64) (*world, error) {
	w := &world{o: o, draw: stream{seed}}
	var err error
	if w.c, w.total, err = o.cluster(&w.draw, seed); err != nil {
		return nil, err
	}
	if w.total == 0 {
		return nil, errors.New("the nodes have no GPUs, so nothing can be given out")
	}
	if !slices.ContainsFunc(o.Pods, func(p trace.OpenbPod) bool { return p.DemandMilli() > 0 }) {
		return nil, errors.New("no pod asks for a GPU, so arrivals never reach a level")
	}
	w.kinds, w.of = o.kinds()
	for i := range w.kinds {
		k, err := w.c.Class(w.kinds[i].ask)
		if err != nil {
			return nil, err
		}
		w.classes = append(w.classes, k)
	}
	if o.Learning == FromTrace {
		return w, w.c.SetWorkload(typical(w.kinds, o.cover()))
	}
	return w, nil
}

const (
	// weighEvery is after how many arrivals scarcity is weighed anew.
	weighEvery = 200
	// fgdCover is how many percent of the pods the typical kinds of FGD
	// cover.
	fgdCover = 95
)

// cover is how many percent of the pods the policy's typical kinds cover.
func (o *Options) cover() int64 {
	if o.Policy == placement.Muster {
		return 100
	}
	return fgdCover
}

// learn notes an arrival before it is placed, and from time to time tells the
// placement what arrives.
func (w *world) learn(before, kind int) error {
	if w.o.Learning == FromArrivals {
		ask := w.kinds[kind].ask
		ask.MemoryBytes = 0
		if w.mix.Note(&ask, 1); w.mix.Due() {
			return w.c.SetWorkload(w.mix.Lesson())
		}
	}
	if w.o.Policy == placement.Muster && before%weighEvery == 0 {
		w.c.Weigh()
	}
	return nil
}

// cluster is the nodes, and how many milli-GPU they have.
func (o *Options) cluster(draw *stream, seed uint64) (*placement.Cluster, int64, error) {
	c := placement.New(placement.Options{Seed: seed ^ 0xa0761d6478bd642f})
	total := int64(0)
	for i, at := range draw.shuffle(len(o.Nodes)) {
		n := &o.Nodes[at]
		spec := placement.NodeSpec{Name: fmt.Sprintf("node-%07d", i), MilliCPU: n.MilliCPU}
		if o.Memory {
			spec.MemoryBytes = n.MemoryMiB << 20
		}
		for g := range n.GPUs {
			spec.Devices = append(spec.Devices, placement.DeviceSpec{UUID: fmt.Sprintf("gpu-%d", g), Model: n.Model})
		}
		if _, err := c.SetNode(spec); err != nil {
			return nil, 0, err
		}
		total += int64(n.GPUs) * placement.Whole
	}
	return c, total, nil
}

// kind is an ask and how many pods make it.
type kind struct {
	ask   placement.Ask
	count int64
}

// kinds are the distinct asks of the pods, and which each pod makes.
func (o *Options) kinds() (kinds []kind, of []int) {
	known := map[string]int{}
	for i := range o.Pods {
		p := &o.Pods[i]
		a := placement.Ask{MilliCPU: p.MilliCPU, GPUs: p.GPUs, ShareMilli: p.Milli, Models: p.Models, Policy: o.Policy}
		if o.Memory {
			a.MemoryBytes = p.MemoryMiB << 20
		}
		key := fmt.Sprintf("%d %d %d %d %s", a.MilliCPU, a.MemoryBytes, a.GPUs, a.ShareMilli, strings.Join(a.Models, "|"))
		k, ok := known[key]
		if !ok {
			k = len(kinds)
			known[key] = k
			kinds = append(kinds, kind{ask: a})
		}
		kinds[k].count++
		of = append(of, k)
	}
	return kinds, of
}

// typical are the most common asks, memory aside, until they cover so many
// percent of all.
func typical(kinds []kind, percent int64) []placement.Weight {
	type group struct {
		placement.Weight
		spec string
	}
	var groups []group
	known := map[string]int{}
	all := int64(0)
	for i := range kinds {
		if kinds[i].count == 0 {
			continue
		}
		a := kinds[i].ask
		a.MemoryBytes = 0
		spec := strings.Join(a.Models, "|")
		key := fmt.Sprintf("%d %d %d %s", a.MilliCPU, a.GPUs, a.ShareMilli, spec)
		g, ok := known[key]
		if !ok {
			g = len(groups)
			known[key] = g
			groups = append(groups, group{placement.Weight{Ask: a}, spec})
		}
		groups[g].Share += kinds[i].count
		all += kinds[i].count
	}
	demand := func(g *group) int64 { return int64(g.Ask.GPUs)*placement.Whole + g.Ask.ShareMilli }
	slices.SortFunc(groups, func(x, y group) int {
		switch {
		case x.Share != y.Share:
			return int(y.Share - x.Share)
		case x.Ask.MilliCPU != y.Ask.MilliCPU:
			return int(y.Ask.MilliCPU - x.Ask.MilliCPU)
		case demand(&x) != demand(&y):
			return int(demand(&y) - demand(&x))
		}
		return strings.Compare(x.spec, y.spec)
	})
	var w []placement.Weight
	covered := int64(0)
	for i := range groups {
		if covered*100 >= all*percent {
			break
		}
		covered += groups[i].Share
		w = append(w, groups[i].Weight)
	}
	return w
}

// stream is a small generator of numbers (splitmix64): the same everywhere.
type stream struct{ state uint64 }

func (s *stream) next() uint64 {
	s.state += 0x9e3779b97f4a7c15
	z := s.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below is a number from 0 to n-1.
func (s *stream) below(n int) int { return int(s.next() % uint64(n)) }

// shuffle is a permutation of 0 to n-1.
func (s *stream) shuffle(n int) []int {
	p := make([]int, n)
	for i := range p {
		p[i] = i
	}
	for i := n - 1; i > 0; i-- {
		j := s.below(i + 1)
		p[i], p[j] = p[j], p[i]
	}
	return p
}
