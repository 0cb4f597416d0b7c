package queue

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Options are what a tree is built with beside its queues.
type Options struct {
	// Models are the GPU models to count by, beside those that queues name.
	Models []string
	// HalfLife is that of usage, in the caller's unit of time. Default:
	// DefaultHalfLife, which is in nanoseconds.
	HalfLife int64
}

// Build makes the tree of these queues, and says what in them cannot be
// honoured as written. It never fails: what is wrong is left out, cut down or
// hung below the root, and the rest counts. The order of specs does not show.
func Build(specs []Spec, options Options) (*Tree, []Problem) {
	b := &builder{}
	b.admit(specs)
	b.arrange()
	t := b.number(options)
	b.amounts(t)
	b.guarantees(t)
	t.reserve()
	t.SetCapacity(nil)
	slices.SortStableFunc(b.problems, func(x, y Problem) int {
		if d := strings.Compare(x.Queue, y.Queue); d != 0 {
			return d
		}
		return strings.Compare(x.Field, y.Field)
	})
	return t, b.problems
}

// builder holds what is known while a tree is built.
type builder struct {
	specs    []Spec
	at       map[string]int
	parent   []int // of each spec: another spec, or -1
	problems []Problem
}

func (b *builder) problem(queue, field string, fault Fault, format string, args ...any) {
	b.problems = append(b.problems, Problem{Queue: queue, Field: field, Fault: fault, Words: fmt.Sprintf(format, args...)})
}

// admit takes the queues in the order of their names, each name once, and adds
// the default queue.
func (b *builder) admit(specs []Spec) {
	sorted := slices.Clone(specs)
	if !slices.ContainsFunc(specs, func(s Spec) bool { return s.Name == Default }) {
		sorted = append(sorted, Spec{Name: Default, Weight: 1})
	}
	slices.SortStableFunc(sorted, func(x, y Spec) int { return strings.Compare(x.Name, y.Name) })
	b.at = map[string]int{}
	for _, spec := range sorted {
		if spec.Name == "" {
			b.problem("", "name", FaultName, "a queue without a name is left out; give it one")
			continue
		}
		if _, taken := b.at[spec.Name]; taken {
			b.problem(spec.Name, "name", FaultName, "another queue has this name; this one is left out")
			continue
		}
		if spec.Gone {
			spec = Spec{Name: spec.Name, Gone: true, Weight: 1}
		}
		if spec.Weight < 1 {
			if spec.Weight < 0 {
				b.problem(spec.Name, "weight", FaultWeight, "%d is less than 1 and counts as 1", spec.Weight)
			}
			spec.Weight = 1
		}
		b.at[spec.Name] = len(b.specs)
		b.specs = append(b.specs, spec)
	}
}

// arrange finds every queue's parent. Queues whose parent is missing, and all
// that are on a cycle, hang below the root.
func (b *builder) arrange() {
	b.parent = make([]int, len(b.specs))
	for i, spec := range b.specs {
		b.parent[i] = -1
		if spec.Parent == "" {
			continue
		}
		if p, ok := b.at[spec.Parent]; ok {
			b.parent[i] = p
			continue
		}
		b.problem(spec.Name, "parent", FaultMissingParent,
			"there is no queue %s; until there is, %s is a child of the root: create %s or name another parent", spec.Parent, spec.Name, spec.Parent)
	}
	// Walk up from each; a queue met twice on one way is on a cycle.
	const unseen, settled = 0, -1
	state := make([]int, len(b.specs))
	var cut [][]int
	for start := range b.specs {
		way := start + 1
		i := start
		for i >= 0 && state[i] == unseen {
			state[i] = way
			i = b.parent[i]
		}
		if i >= 0 && state[i] == way {
			cycle := []int{i}
			for j := b.parent[i]; j != i; j = b.parent[j] {
				cycle = append(cycle, j)
			}
			cut = append(cut, cycle)
		}
		for i = start; i >= 0 && state[i] == way; i = b.parent[i] {
			state[i] = settled
		}
	}
	for _, cycle := range cut {
		for k, i := range cycle {
			names := make([]string, 0, len(cycle)+1)
			for j := range cycle {
				names = append(names, b.specs[cycle[(k+j)%len(cycle)]].Name)
			}
			names = append(names, b.specs[i].Name)
			b.problem(b.specs[i].Name, "parent", FaultCycle,
				"the queue is above itself (%s); until that is mended, each of them is a child of the root: change one's parent", strings.Join(names, " -> "))
		}
	}
	for _, cycle := range cut {
		for _, i := range cycle {
			b.parent[i] = -1
		}
	}
}

// number lays the queues out level by level, the children of each side by side
// in the order of their names.
func (b *builder) number(options Options) *Tree {
	children := make([][]int, len(b.specs)+1)
	for i, p := range b.parent {
		children[p+1] = append(children[p+1], i)
	}
	models := slices.Clone(options.Models)
	for _, spec := range b.specs {
		for _, amounts := range []Amounts{spec.Guaranteed, spec.Limit, spec.LendingLimit} {
			for name := range amounts {
				models = append(models, name)
			}
		}
	}
	t := &Tree{classes: newClasses(models), halfLife: options.HalfLife, byName: map[string]Queue{}, users: map[string]User{}}
	t.records = map[recordKey]int32{}
	if t.halfLife <= 0 {
		t.halfLife = DefaultHalfLife
	}
	t.nodes = append(t.nodes, node{parent: -1, spec: -1, weight: 1, borrows: true, reclaim: ReclaimAny})
	for at := 0; at < len(t.nodes); at++ {
		n := t.nodes[at]
		below := children[n.spec+1]
		if n.own || len(below) == 0 {
			t.nodes[at].first, t.nodes[at].last = int32(len(t.nodes)), int32(len(t.nodes))
			continue
		}
		t.nodes[at].first = int32(len(t.nodes))
		if at > 0 {
			own := n
			own.own, own.parent, own.weight, own.borrows = true, int32(at), 1, true
			t.nodes = append(t.nodes, own)
		}
		for _, i := range below {
			t.nodes = append(t.nodes, b.node(i, int32(at), &t.nodes[at]))
			t.byName[b.specs[i].Name] = Queue(len(t.nodes) - 1)
		}
		t.nodes[at].last = int32(len(t.nodes))
	}
	t.allocate()
	return t
}

func (b *builder) node(i int, parent int32, above *node) node {
	spec := &b.specs[i]
	n := node{
		name: spec.Name, parent: parent, spec: i, weight: float64(spec.Weight), borrows: !spec.NoBorrowing,
		fair: !spec.NoUserFairness, stopped: spec.Stopped, gone: spec.Gone, reclaim: spec.Reclaim, minRun: spec.MinRunTime,
	}
	if n.reclaim == ReclaimInherit {
		n.reclaim = above.reclaim
	}
	if n.minRun <= 0 {
		n.minRun = above.minRun
	}
	return n
}

// amounts reads what the specs say into the tree.
func (b *builder) amounts(t *Tree) {
	width := t.classes.Len()
	for at := range t.nodes {
		n := &t.nodes[at]
		row := at * width
		for c := range width {
			t.cap[row+c], t.lend[row+c] = math.MaxInt64, math.MaxInt64
		}
		if n.own || n.spec < 0 {
			continue
		}
		spec := &b.specs[n.spec]
		b.read(t, spec, "guaranteed", spec.Guaranteed, func(c Class, amount int64) {
			t.guaranteed[row+int(c)], t.named[row+int(c)] = amount, true
		})
		b.read(t, spec, "limit", spec.Limit, func(c Class, amount int64) { t.cap[row+int(c)] = amount })
		b.read(t, spec, "lendingLimit", spec.LendingLimit, func(c Class, amount int64) { t.lend[row+int(c)] = amount })
		b.addModels(t, spec, row)
	}
}

// read checks amounts in the order of their classes.
func (b *builder) read(t *Tree, spec *Spec, field string, amounts Amounts, set func(Class, int64)) {
	names := make([]string, 0, len(amounts))
	for name := range amounts {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		amount := amounts[name]
		class, ok := t.classes.Find(name)
		switch {
		case !ok:
			b.problem(spec.Name, field, FaultAmount, "an amount without a class is left out; name one: cpu, memory, gpu, or a GPU model")
			continue
		case amount < 0:
			b.problem(spec.Name, field+"."+name, FaultAmount, "%s is negative and left out; give 0 or more", format(class, amount))
			continue
		case amount > MaxAmount:
			b.problem(spec.Name, field+"."+name, FaultAmount, "%s is too large; %s is what counts", format(class, amount), format(class, MaxAmount))
			amount = MaxAmount
		}
		set(class, amount)
	}
}

// addModels makes the guarantee of gpu no less than those of the models.
func (b *builder) addModels(t *Tree, spec *Spec, row int) {
	var sum int64
	any := false
	for c := int(firstModel); c < t.classes.Len(); c++ {
		sum = plus(sum, t.guaranteed[row+c])
		any = any || t.named[row+c]
	}
	gpu := row + int(GPU)
	if !any || t.named[gpu] && t.guaranteed[gpu] >= sum {
		return
	}
	if t.named[gpu] {
		b.problem(spec.Name, "guaranteed.gpu", FaultModels, "%s GPUs of any model are fewer than the %s guaranteed by model; %s counts: raise gpu or lower the models",
			format(GPU, t.guaranteed[gpu]), format(GPU, sum), format(GPU, sum))
	}
	t.guaranteed[gpu], t.named[gpu] = sum, true
}

// plus adds two amounts that are not negative and stops at MaxAmount.
func plus(a, b int64) int64 { return min(a+b, MaxAmount) }

// guarantees makes guarantees consistent: from the leaves up a queue that
// names no amount takes the sum of its children's; from the root down children
// are cut, all by the same factor, to what their parent has.
func (b *builder) guarantees(t *Tree) {
	width := t.classes.Len()
	below := make([]int64, len(t.guaranteed)) // What the children have in sum.
	for at := len(t.nodes) - 1; at > 0; at-- {
		row, up := at*width, int(t.nodes[at].parent)*width
		for c := range width {
			g := &t.guaranteed[row+c]
			if !t.named[row+c] && below[row+c] > 0 {
				// A model's is not named: any model of the gpu guarantee will do.
				*g, t.named[row+c] = below[row+c], Class(c) < firstModel
			}
			b.fitLimit(t, at, Class(c))
			below[up+c] = plus(below[up+c], *g)
		}
	}
	for at := 1; at < len(t.nodes); at++ {
		n := &t.nodes[at]
		if n.first == n.last {
			continue
		}
		for c := range width {
			b.share(t, at, Class(c))
		}
	}
	for at := 1; at < len(t.nodes); at++ {
		for c := range width {
			if i := at*width + c; t.named[i] && !t.nodes[at].borrows {
				t.cap[i] = min(t.cap[i], t.guaranteed[i])
			}
		}
	}
}

// fitLimit cuts a guarantee to the limit.
func (b *builder) fitLimit(t *Tree, at int, c Class) {
	i := at*t.classes.Len() + int(c)
	if t.nodes[at].own || t.guaranteed[i] <= t.cap[i] {
		return
	}
	b.problem(t.nodes[at].name, "limit."+t.classes.Name(c), FaultLimit, "%s is less than the %s that the queue or its children are guaranteed; %s counts for both: raise the limit or lower the guarantee",
		format(c, t.cap[i]), format(c, t.guaranteed[i]), format(c, t.cap[i]))
	t.guaranteed[i] = t.cap[i]
}

// share cuts the guarantees of a queue's children to the queue's own, and gives
// the queue's own jobs what is left.
func (b *builder) share(t *Tree, at int, c Class) {
	width, n := t.classes.Len(), &t.nodes[at]
	have := t.guaranteed[at*width+int(c)]
	var sum int64
	for child := n.first + 1; child < n.last; child++ {
		sum = plus(sum, t.guaranteed[int(child)*width+int(c)])
	}
	if sum > have {
		b.problem(n.name, "guaranteed."+t.classes.Name(c), FaultGuarantee,
			"%s is less than the %s that its children are guaranteed; theirs are cut in proportion: raise it or lower theirs", format(c, have), format(c, sum))
		factor, left := float64(have)/float64(sum), have
		for child := n.first + 1; child < n.last; child++ {
			g := &t.guaranteed[int(child)*width+int(c)]
			*g = min(int64(float64(*g)*factor), left)
			left -= *g
		}
		sum = have
	}
	own := int(n.first)*width + int(c)
	t.guaranteed[own], t.named[own] = have-sum, t.named[at*width+int(c)]
	if c >= firstModel {
		// Nobody has more of a model than of all together.
		t.guaranteed[own] = min(t.guaranteed[own], t.guaranteed[int(n.first)*width+int(GPU)])
	}
}
