package simulate

import "fmt"

// state is where a job is in its life.
type state uint8

const (
	unborn state = iota
	waiting
	running
	ended
)

// Violation is a decision that cannot be carried out: an error of the policy.
type Violation struct {
	// At is when it was decided.
	At Micros
	// Job is which job it is about, as numbered in the run.
	Job int
	// What is wrong.
	What string
}

// Error says when, which job and what is wrong.
func (v *Violation) Error() string {
	return fmt.Sprintf("at %v, job %d: %s", v.At, v.Job, v.What)
}

// ledger is the loop's own account of the nodes, which every decision must
// agree with.
type ledger struct {
	spec ClusterSpec
	free []int
	// seen is the last check in which a node occurred, to notice one that is
	// named twice.
	seen  []int
	check int
}

func newLedger(spec ClusterSpec) *ledger {
	l := &ledger{spec: spec, free: make([]int, spec.Nodes), seen: make([]int, spec.Nodes)}
	for i := range l.free {
		l.free[i] = spec.GPUsPerNode
	}
	return l
}

// take gives the job its shares, or says what is wrong with them.
func (l *ledger) take(gpus int, shares []Share) string {
	l.check++
	sum := 0
	for _, share := range shares {
		switch {
		case share.Node < 0 || share.Node >= l.spec.Nodes:
			return fmt.Sprintf("started on node %d: there are nodes 0 to %d", share.Node, l.spec.Nodes-1)
		case l.seen[share.Node] == l.check:
			return fmt.Sprintf("started on node %d twice", share.Node)
		case share.GPUs < 1:
			return fmt.Sprintf("started with %d GPUs on node %d", share.GPUs, share.Node)
		case share.GPUs > l.free[share.Node]:
			return fmt.Sprintf("started with %d GPUs on node %d, where %d are free", share.GPUs, share.Node, l.free[share.Node])
		}
		l.seen[share.Node] = l.check
		sum += share.GPUs
	}
	if wrong := l.shape(gpus, shares, sum); wrong != "" {
		return wrong
	}
	for _, share := range shares {
		l.free[share.Node] -= share.GPUs
	}
	return ""
}

// shape says what is wrong with the gang as a whole.
func (l *ledger) shape(gpus int, shares []Share, sum int) string {
	if !l.spec.WholeNodes {
		if sum != gpus {
			return fmt.Sprintf("started with %d of its %d GPUs", sum, gpus)
		}
		return ""
	}
	nodes, each := l.spec.Shape(gpus)
	if len(shares) != nodes || sum != nodes*each {
		return fmt.Sprintf("its %d GPUs are started as %d GPUs on %d nodes: here they are %d on each of %d", gpus, sum, len(shares), each, nodes)
	}
	return ""
}

// give takes the shares back.
func (l *ledger) give(shares []Share) {
	for _, share := range shares {
		l.free[share.Node] += share.GPUs
	}
}
