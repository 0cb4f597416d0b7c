package queue

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestProblems(t *testing.T) {
	tests := []struct {
		name  string
		specs []Spec
		want  []string
		// parents are where queues end up.
		parents map[string]string
	}{
		{
			name:    "nothing is wrong with nothing",
			parents: map[string]string{"default": ""},
		},
		{
			name:    "a missing parent",
			specs:   []Spec{{Name: "ocr", Parent: "vison"}, {Name: "vision"}},
			want:    []string{"queue ocr, parent: there is no queue vison; until there is, ocr is a child of the root: create vison or name another parent"},
			parents: map[string]string{"ocr": ""},
		},
		{
			name:  "a cycle, and what hangs below it",
			specs: []Spec{{Name: "a", Parent: "b"}, {Name: "b", Parent: "c"}, {Name: "c", Parent: "a"}, {Name: "d", Parent: "c"}},
			want: []string{
				"queue a, parent: the queue is above itself (a -> b -> c -> a); until that is mended, each of them is a child of the root: change one's parent",
				"queue b, parent: the queue is above itself (b -> c -> a -> b); until that is mended, each of them is a child of the root: change one's parent",
				"queue c, parent: the queue is above itself (c -> a -> b -> c); until that is mended, each of them is a child of the root: change one's parent",
			},
			parents: map[string]string{"a": "", "b": "", "c": "", "d": "c"},
		},
		{
			name:    "its own parent",
			specs:   []Spec{{Name: "a", Parent: "a"}},
			want:    []string{"queue a, parent: the queue is above itself (a -> a); until that is mended, each of them is a child of the root: change one's parent"},
			parents: map[string]string{"a": ""},
		},
		{
			name: "children that are guaranteed more than their parent",
			specs: []Spec{
				{Name: "team", Guaranteed: Amounts{"gpu": 8000}},
				{Name: "x", Parent: "team", Guaranteed: Amounts{"gpu": 12000}}, {Name: "y", Parent: "team", Guaranteed: Amounts{"gpu": 4000}},
			},
			want: []string{"queue team, guaranteed.gpu: 8 is less than the 16 that its children are guaranteed; theirs are cut in proportion: raise it or lower theirs"},
		},
		{
			name:  "a limit below the guarantee",
			specs: []Spec{{Name: "a", Guaranteed: Amounts{"memory": 64 * gi}, Limit: Amounts{"memory": 48 * gi}}},
			want:  []string{"queue a, limit.memory: 48Gi is less than the 64Gi that the queue or its children are guaranteed; 48Gi counts for both: raise the limit or lower the guarantee"},
		},
		{
			name: "amounts that cannot be",
			specs: []Spec{{Name: "a", Weight: -1, Guaranteed: Amounts{"gpu": -500}, Limit: Amounts{"cpu": 1 << 62, "": 1}, LendingLimit: Amounts{"A100": -1}},
				{Name: "a"}, {}},
			want: []string{
				"queue , name: a queue without a name is left out; give it one",
				"queue a, guaranteed.gpu: -0.5 is negative and left out; give 0 or more",
				"queue a, lendingLimit.A100: -0.001 is negative and left out; give 0 or more",
				"queue a, limit: an amount without a class is left out; name one: cpu, memory, gpu, or a GPU model",
				"queue a, limit.cpu: 4611686018427387.904 is too large; 1152921504606846.976 is what counts",
				"queue a, name: another queue has this name; this one is left out",
				"queue a, weight: -1 is less than 1 and counts as 1",
			},
		},
		{
			name:  "models beyond gpu",
			specs: []Spec{{Name: "a", Guaranteed: Amounts{"gpu": 2000, "A100": 4000}}},
			want:  []string{"queue a, guaranteed.gpu: 2 GPUs of any model are fewer than the 4 guaranteed by model; 4 counts: raise gpu or lower the models"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tree, problems := Build(tt.specs, Options{})
			var got []string
			for _, p := range problems {
				got = append(got, p.String())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			for name, parent := range tt.parents {
				if got := tree.Name(tree.Parent(tree.must(name))); got != parent {
					t.Errorf("parent of %s: %q, want %q", name, got, parent)
				}
			}
		})
	}
}

func TestGuarantees(t *testing.T) {
	tree, _ := Build([]Spec{
		{Name: "group"}, {Name: "a", Parent: "group", Guaranteed: Amounts{"A100": 4000}}, {Name: "b", Parent: "group", Guaranteed: Amounts{"gpu": 2000}},
		{Name: "team", Guaranteed: Amounts{"gpu": 8000}},
		{Name: "x", Parent: "team", Guaranteed: Amounts{"gpu": 12000}}, {Name: "y", Parent: "team", Guaranteed: Amounts{"gpu": 4000}},
	}, Options{})
	got := map[string]int64{}
	for _, name := range []string{"default", "group", "a", "b", "team", "x", "y"} {
		got[name] = tree.Guaranteed(tree.must(name), GPU)
	}
	want := map[string]int64{"default": 0, "group": 6000, "a": 4000, "b": 2000, "team": 8000, "x": 6000, "y": 2000}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("guaranteed GPUs (-want +got):\n%s", diff)
	}
	if model, _ := tree.classes.Find("a100"); tree.Guaranteed(tree.must("group"), model) != 4000 {
		t.Error("the group does not guarantee the A100s of its child")
	}
	tree.SetCapacity(tree.gpus(10_000))
	if over := tree.Overcommitted(GPU); over != 4000 {
		t.Errorf("overcommitted by %d, want 4000", over)
	}
}

// Whatever is written, a tree comes of it, the same in whatever order.
func TestAnythingBuilds(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		specs := forest(r, 1+r.IntN(20))
		for range r.IntN(6) {
			s := &specs[r.IntN(len(specs))]
			switch r.IntN(5) {
			case 0:
				s.Parent = specs[r.IntN(len(specs))].Name
			case 1:
				s.Parent = "nowhere"
			case 2:
				s.Guaranteed["gpu"] = r.Int64()
			case 3:
				s.Limit["A100"] = -r.Int64()
			case 4:
				s.Name = specs[r.IntN(len(specs))].Name
			}
		}
		tree, problems := Build(specs, Options{})
		for at := 1; at < len(tree.nodes); at++ {
			n := &tree.nodes[at]
			for c := range tree.classes.Len() {
				var sum int64
				for child := n.first; child < n.last; child++ {
					sum += tree.at(tree.guaranteed, Queue(child), Class(c))
				}
				have := tree.at(tree.guaranteed, Queue(at), Class(c))
				if limit, ok := tree.Limit(Queue(at), Class(c)); have < 0 || sum > have && n.first < n.last || ok && limit < have {
					t.Fatalf("seed %d: queue %s class %d is guaranteed %d, its children %d", seed, n.name, c, have, sum)
				}
			}
		}
		names := map[string]bool{}
		for i := range specs {
			names[specs[i].Name] = true
		}
		if len(names) != len(specs) {
			continue // Which of two namesakes stays is up to the order.
		}
		r.Shuffle(len(specs), func(i, j int) { specs[i], specs[j] = specs[j], specs[i] })
		again, same := Build(specs, Options{})
		if diff := cmp.Diff(problems, same); diff != "" {
			t.Fatalf("seed %d: the order of specs shows in the problems:\n%s", seed, diff)
		}
		if diff := cmp.Diff(tree.guaranteed, again.guaranteed); diff != "" {
			t.Fatalf("seed %d: the order of specs shows:\n%s", seed, diff)
		}
	}
}

func TestFormat(t *testing.T) {
	c := newClasses([]string{"a100", "A100", "H100"})
	if c.Len() != 5 || c.Name(3) != "A100" {
		t.Fatalf("classes: %v", c.names)
	}
	for _, tt := range []struct {
		class  Class
		amount int64
		want   string
	}{{CPU, 500, "0.5"}, {CPU, 64_000, "64"}, {GPU, -1250, "-1.25"}, {Memory, 512, "512"}, {Memory, 3 * gi / 2, "1.5Gi"}, {Memory, 64 * gi, "64Gi"}} {
		if got := c.Format(tt.class, tt.amount); got != tt.want {
			t.Errorf("Format(%d, %d) = %q, want %q", tt.class, tt.amount, got, tt.want)
		}
	}
}
