package queue

import (
	"math/rand/v2"
	"testing"
)

// gi is a gibibyte.
const gi = int64(1) << 30

// cluster is a capacity of 64 GPUs, 32 of them A100, 512 cores and 4 TiB.
func cluster(t *Tree) *Tree {
	v := t.classes.Zero()
	v[CPU], v[Memory] = 512_000, 4096*gi
	t.classes.AddGPUs(v, "A100", 32_000)
	t.classes.AddGPUs(v, "V100", 32_000)
	t.SetCapacity(v)
	return t
}

// grow builds a tree on the cluster that must have no problems.
func grow(t testing.TB, specs ...Spec) *Tree {
	t.Helper()
	tree, problems := Build(specs, Options{Models: []string{"A100", "V100"}, HalfLife: 1000})
	if len(problems) > 0 {
		t.Fatalf("problems: %v", problems)
	}
	return cluster(tree)
}

func (t *Tree) must(name string) Queue {
	q, ok := t.Find(name)
	if !ok {
		panic("no queue " + name)
	}
	return q
}

// gpus is an ask for GPUs of any model.
func (t *Tree) gpus(milli int64) Vector {
	v := t.classes.Zero()
	v[GPU] = milli
	return v
}

// forest is a random, consistent tree of queues: children are guaranteed no
// more than their parent, the root's no more than the cluster.
func forest(r *rand.Rand, size int) []Spec {
	specs := make([]Spec, size)
	left := make([]Amounts, size+1)
	full := func() Amounts {
		return Amounts{"gpu": 64_000, "A100": 32_000, "cpu": 512_000, "memory": 4096 * gi}
	}
	left[0] = full()
	for i := range specs {
		s := &specs[i]
		s.Name = string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676))
		parent := 0
		if i > 0 && r.IntN(3) > 0 {
			parent = 1 + r.IntN(i)
			s.Parent = specs[parent-1].Name
		}
		s.Weight = 1 + r.Int64N(3)
		s.NoBorrowing = r.IntN(6) == 0
		s.NoUserFairness = r.IntN(4) == 0
		s.Guaranteed, s.Limit, s.LendingLimit = Amounts{}, Amounts{}, Amounts{}
		left[i+1] = Amounts{}
		for _, class := range []string{"gpu", "A100", "cpu", "memory"} {
			g := int64(0)
			if have := left[parent][class]; have >= 4 {
				g = have / 4 * r.Int64N(4)
			}
			if class == "A100" {
				g = min(g, s.Guaranteed["gpu"])
			}
			left[parent][class] -= g
			s.Guaranteed[class], left[i+1][class] = g, g
			if r.IntN(3) == 0 {
				s.Limit[class] = g + r.Int64N(full()[class])
			}
			if r.IntN(4) == 0 {
				s.LendingLimit[class] = r.Int64N(g + 1)
			}
		}
	}
	return specs
}

// randomAsk is an ask of one to a few GPUs with CPU and memory.
func randomAsk(r *rand.Rand, t *Tree) Vector {
	v := t.classes.Zero()
	if r.IntN(5) > 0 {
		model := []string{"A100", "V100", "", "A100"}[r.IntN(4)]
		t.classes.AddGPUs(v, model, (1+r.Int64N(8))*500)
	}
	v[CPU], v[Memory] = r.Int64N(16_000), r.Int64N(64)*gi
	return v
}
