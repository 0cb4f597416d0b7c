package queue

import "fmt"

// Default is the name of the queue of everything that names none.
const Default = "default"

// Reclaim says from which work of other queues a queue takes back what it is
// guaranteed.
type Reclaim int8

// The ways to reclaim.
const (
	// ReclaimInherit does as the queue above; at the root: ReclaimAny.
	ReclaimInherit Reclaim = iota
	// ReclaimAny takes back from any work that borrows.
	ReclaimAny
	// ReclaimLowerPriority takes back only from work of lower priority.
	ReclaimLowerPriority
	// ReclaimNever waits until others are done.
	ReclaimNever
)

// Amounts are amounts by the name of their class, in the class's unit.
type Amounts map[string]int64

// Spec is what is said of one queue.
type Spec struct {
	// Name tells queues apart.
	Name string
	// Parent is the queue above; empty: the root.
	Parent string
	// Guaranteed is what the queue can have whenever it wants.
	Guaranteed Amounts
	// Limit is the most that the queue may use. A class that is not named has
	// no limit.
	Limit Amounts
	// LendingLimit is the most of its guarantee that others may borrow. A class
	// that is not named is lent whole.
	LendingLimit Amounts
	// Weight is its part among its siblings; less than 1 counts as 1.
	Weight int64
	// NoBorrowing keeps the queue, in the classes of its guarantee, to it.
	NoBorrowing bool
	// NoUserFairness orders work inside by priority and age alone.
	NoUserFairness bool
	// Reclaim says from which work it takes back its guarantee.
	Reclaim Reclaim
	// MinRunTime is how long its work runs at least before it may be taken back
	// for another queue, in the caller's unit of time. 0: as the queue above.
	MinRunTime int64
	// Stopped keeps anything new from starting in it and below.
	Stopped bool
	// Gone is a queue that was deleted while work is still charged to it:
	// nothing is guaranteed to it and nothing new starts.
	Gone bool
}

// Fault is a kind of problem.
type Fault string

// The kinds of problem.
const (
	// FaultName: the name is empty or taken.
	FaultName Fault = "Name"
	// FaultMissingParent: the queue above does not exist.
	FaultMissingParent Fault = "MissingParent"
	// FaultCycle: the queue is above itself.
	FaultCycle Fault = "Cycle"
	// FaultAmount: an amount is negative, too large or of a class without name.
	FaultAmount Fault = "Amount"
	// FaultLimit: a limit is below the guarantee.
	FaultLimit Fault = "LimitBelowGuaranteed"
	// FaultGuarantee: children are guaranteed more than the queue above.
	FaultGuarantee Fault = "OverGuaranteed"
	// FaultModels: guarantees of models exceed that of gpu.
	FaultModels Fault = "ModelsAboveGPU"
	// FaultWeight: the weight is less than 1.
	FaultWeight Fault = "Weight"
)

// Problem is something in a queue that cannot be honoured as written.
type Problem struct {
	// Queue is the queue in which to change something.
	Queue string
	// Field is what to change: parent, guaranteed.gpu, limit.A100, ...
	Field string
	// Fault is the kind.
	Fault Fault
	// Words say what is wrong, what is done meanwhile and what to do.
	Words string
}

// String returns "queue vision, guaranteed.gpu: ...".
func (p Problem) String() string { return fmt.Sprintf("queue %s, %s: %s", p.Queue, p.Field, p.Words) }
