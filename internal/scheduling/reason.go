package scheduling

import (
	"fmt"
	"strings"
)

// Code names a kind of reason, for programs.
type Code string

// The kinds of reasons.
const (
	CodeSuspended  Code = "Suspended"
	CodeDraining   Code = "Draining"
	CodeCoolingOff Code = "CoolingOff"
	CodeRefused    Code = "Refused"
	CodeMissing    Code = "Missing"
	CodePlaced     Code = "Placed"
	CodeFinished   Code = "Finished"
	CodeFits       Code = "Fits"
	CodeNoNodes    Code = "NoNodes"
	CodeNoNodeFor  Code = "NoNodeAllows"
	CodeNoModel    Code = "NoSuchModel"
	CodeTooLarge   Code = "TooLarge"
	CodeGPUs       Code = "ShortOfGPUs"
	CodeResource   Code = "ShortOfResource"
	CodePorts      Code = "ShortOfPorts"
	CodeScattered  Code = "Scattered"
	CodeQueue      Code = "BlockedByQueue"
	CodeKeptFree   Code = "KeptFree"
	CodeMakingRoom Code = "MakingRoom"
	CodePaused     Code = "Paused"
	CodeQuota      Code = "OverQuota"
)

// Reason is why a request is where it is.
type Reason interface {
	// Code names the kind.
	Code() Code
	// Render says it in one sentence without a full stop. The clock writes
	// the times in it.
	Render(Clock) string
}

// Suspended means that its owner wants it stopped.
type Suspended struct{}

// Draining means that what the last attempt started is being removed.
type Draining struct{}

// CoolingOff means that the last attempt failed a moment ago.
type CoolingOff struct {
	// Until is when the next attempt may be made.
	Until Instant
	// After is the reason for the end of the last attempt; empty if that is unknown.
	After string
}

// Refused means that the API server would not accept its pods.
type Refused struct {
	// Words are the API server's.
	Words string
}

// AfterMissing ends the sentence of [Missing].
const AfterMissing = "; it takes no GPU until that is mended, and starts then"

// Missing means that its pods name an object that is not there, or a claim that
// cannot be used yet.
type Missing struct {
	// Words say what, and who names it.
	Words string
}

// Placed means that it holds what it asked for.
type Placed struct {
	// Since is when the plan was journalled.
	Since Instant
	// Attempt counts its plans.
	Attempt int32
}

// Finished means that its outcome is decided.
type Finished struct{}

// Fits means that everything it needs is free.
type Fits struct{}

// NoNodes means that there is no node at all.
type NoNodes struct{}

// NodeRefusal is why one node does not take a role.
type NodeRefusal struct {
	Node string
	Why  string
}

// NoNodeAllows means that no node takes members of a role, whatever is free.
type NoNodeAllows struct {
	Role  string
	Nodes []NodeRefusal
}

// ModelCount is how many devices of a model there are.
type ModelCount struct {
	Model string
	Count int
}

// NoSuchModel means that no node has a GPU of a model that would do.
type NoSuchModel struct {
	// Models are those that would do; empty means any.
	Models []string
	// Have is what there is.
	Have []ModelCount
	// Withheld is what there would be besides.
	Withheld []Withheld
	// Single is true where there is one node.
	Single bool
}

// TooLarge means that more is asked for than there is, even if everything were free.
type TooLarge struct {
	// Resource is "gpu", "cpu", "memory" or another resource's name.
	Resource string
	// Models are the GPU models that would do.
	Models []string
	// Role is the role of which each member asks for Need on one node; empty
	// if Need is the sum of all members.
	Role string
	// Need is what is asked for; Have the most there is. CPU in thousandths,
	// memory in bytes.
	Need, Have int64
	// Withheld is what there would be besides.
	Withheld []Withheld
	// Single is true where there is one node.
	Single bool
}

// GPUHolder is who holds some of the GPUs that are missing.
type GPUHolder struct {
	Key
	// Pod is true for a pod that is in no gang, and Claim as well for a claim that
	// Muster did not allocate.
	Pod, Claim bool
	// Count is how many of them it has for itself, Share what it has of others
	// in all.
	Count int
	Share Share
	// Since is when it began.
	Since Instant
}

// GPUForeign is a GPU with a process on it that Muster did not start.
type GPUForeign struct {
	UUID    string
	Process Process
}

// GPUUnhealthy is a GPU that is not given out.
type GPUUnhealthy struct {
	UUID string
	Why  string
}

// ShortOfGPUs means that the GPUs exist and are not free.
type ShortOfGPUs struct {
	// Need is how many are needed at once.
	Need int
	// Models are those that would do; empty means any.
	Models []string
	// Free is how many are free.
	Free int
	// Holders have the others, the longest holding first.
	Holders []GPUHolder
	// Foreign are those with processes that are not Muster's.
	Foreign []GPUForeign
	// Unhealthy are those that are out of order.
	Unhealthy []GPUUnhealthy
	// Withheld is what there would be besides.
	Withheld []Withheld
	// Single is true where there is one node.
	Single bool
}

// ShortOfResource means that CPU, memory or the like exists and is not free.
type ShortOfResource struct {
	// Resource is "cpu", "memory", "pods" or another resource's name.
	Resource string
	// Need and Free are sums. CPU in thousandths, memory in bytes.
	Need, Free int64
	// Holders have the most of it, the largest first.
	Holders []Key
	// Single is true where there is one node.
	Single bool
}

// ShortOfPorts means that too few ports are free on the nodes.
type ShortOfPorts struct {
	// Need is how many members need one; Free how many are free.
	Need, Free int
	// Fixed are ports of the node that a member asks for and another has.
	Fixed []int32
}

// Scattered means that enough is free in all, but not on one node for each member.
type Scattered struct {
	// Role is the role whose members find no room.
	Role string
	// GPUs and Models are what each needs.
	GPUs   int
	Models []string
	// Most is the most GPUs free on one node.
	Most int
}

// QueueRule is what keeps a queue from taking something.
type QueueRule string

// The rules of queues.
const (
	// RuleMissing: there is no such queue.
	RuleMissing QueueRule = "missing"
	// RuleGone: the queue was deleted.
	RuleGone QueueRule = "gone"
	// RuleStopped: the queue is stopped.
	RuleStopped QueueRule = "stopped"
	// RuleLimit: it would be more than the queue's limit.
	RuleLimit QueueRule = "limit"
	// RuleBorrowing: it would be more than the queue is guaranteed, and the
	// queue may not borrow.
	RuleBorrowing QueueRule = "borrowing"
	// RuleReserved: what is free is kept for queues that do not lend it.
	RuleReserved QueueRule = "reserved"
	// RuleCapacity: there is no more of it.
	RuleCapacity QueueRule = "capacity"
)

// BlockedByQueue means that its queue, or one above it, may not take it.
type BlockedByQueue struct {
	// Queue is where the rule is. Login is the user of it to show, empty for a queue of no
	// user; a Mask sets it.
	Queue, Login string
	// Rule is what keeps it.
	Rule QueueRule
	// Resource is of what there is too little: "gpu", "cpu", "memory" or a GPU
	// model. It and all below are empty where the rule is of no amount.
	Resource string
	// Allowed is the most the queue may use, Used what it uses, Asked what is
	// asked for, and Missing what is too much. GPUs and CPU in thousandths,
	// memory in bytes.
	Allowed, Used, Asked, Missing int64
	// Holders have what the queue uses, the largest first.
	Holders []QueueHolder
	// Borrowers are the queues that use more than they are guaranteed, those
	// nearest to it first.
	Borrowers []QueueBorrower
}

// QueueHolder is who holds some of what a queue uses.
type QueueHolder struct {
	Key
	// Pod is true for a pod that is in no gang.
	Pod bool
	// Amount is how much, in the unit of the resource.
	Amount int64
	// Since is when it began.
	Since Instant
}

// QueueBorrower is a queue that uses more than it is guaranteed.
type QueueBorrower struct {
	// Queue and Login are as in BlockedByQueue.
	Queue, Login string
	// Amount is how much more, in the unit of the resource.
	Amount int64
}

// OverQuota means that its pods would be more than a quota of its namespace
// allows.
type OverQuota struct {
	// Quota is the quota.
	Quota Key
	// Resource is by the name that the quota has for it.
	Resource string
	// Hard is what is allowed, Used what others use, Asked what is asked for.
	// CPU in thousandths, memory in bytes.
	Hard, Used, Asked int64
	// Kept is how much of it is kept for KeptFor, which has waited for too long.
	Kept    int64
	KeptFor Key
	// Uncounted is true while the API server has not counted what is used.
	Uncounted bool
	// Holders have what is used, the largest first, where that is known.
	Holders []QueueHolder
}

// KeptFree means that there is room for it, on nodes that are kept free for
// another, which has waited for too long.
type KeptFree struct {
	// For is whom they are kept free for.
	For Key
	// Until is when that one is expected to start there.
	Until Instant
}

// MakingRoom means that others were told to make room for it.
type MakingRoom struct {
	// Victims are those that are still there.
	Victims []Key
}

// Paused means that nothing is started for the time being.
type Paused struct {
	// Words say who paused it and why.
	Words string
}

// Code is CodeQueue.
func (BlockedByQueue) Code() Code { return CodeQueue }

// Code is CodeQuota.
func (OverQuota) Code() Code { return CodeQuota }

// Code is CodeKeptFree.
func (KeptFree) Code() Code { return CodeKeptFree }

// Code is CodeMakingRoom.
func (MakingRoom) Code() Code { return CodeMakingRoom }

// Code is CodePaused.
func (Paused) Code() Code { return CodePaused }

// Code is CodeSuspended.
func (Suspended) Code() Code { return CodeSuspended }

// Code is CodeDraining.
func (Draining) Code() Code { return CodeDraining }

// Code is CodeCoolingOff.
func (CoolingOff) Code() Code { return CodeCoolingOff }

// Code is CodeRefused.
func (Refused) Code() Code { return CodeRefused }

// Code is CodeMissing.
func (Missing) Code() Code { return CodeMissing }

// barred reports whether a request waits until a user changes a rule or makes an object; nil is no
// such reason.
func barred(r Reason) bool {
	return r != nil && (r.Code() == CodeRefused || r.Code() == CodeMissing)
}

// Code is CodePlaced.
func (Placed) Code() Code { return CodePlaced }

// Code is CodeFinished.
func (Finished) Code() Code { return CodeFinished }

// Code is CodeFits.
func (Fits) Code() Code { return CodeFits }

// Code is CodeNoNodes.
func (NoNodes) Code() Code { return CodeNoNodes }

// Code is CodeNoNodeFor.
func (NoNodeAllows) Code() Code { return CodeNoNodeFor }

// Code is CodeNoModel.
func (NoSuchModel) Code() Code { return CodeNoModel }

// Code is CodeTooLarge.
func (TooLarge) Code() Code { return CodeTooLarge }

// Code is CodeGPUs.
func (ShortOfGPUs) Code() Code { return CodeGPUs }

// Code is CodeResource.
func (ShortOfResource) Code() Code { return CodeResource }

// Code is CodePorts.
func (ShortOfPorts) Code() Code { return CodePorts }

// Code is CodeScattered.
func (Scattered) Code() Code { return CodeScattered }

// wantText names what is wanted: "4 A100 or H100", "1 GPU", "3 GPUs".
func wantText(n int64, models []string) string {
	switch {
	case len(models) > 0:
		return fmt.Sprintf("%d %s", n, strings.Join(models, " or "))
	case n == 1:
		return "1 GPU"
	}
	return fmt.Sprintf("%d GPUs", n)
}

// amountText writes an amount of a resource for people.
func amountText(resource string, amount int64) string {
	switch resource {
	case resourceCPU:
		if amount == 1000 {
			return "1 CPU"
		}
		return fmt.Sprintf("%.4g CPUs", float64(amount)/1000)
	case resourceMemory:
		return bytesText(amount) + " of memory"
	case resourcePods:
		return fmt.Sprintf("%d pods", amount)
	}
	return fmt.Sprintf("%d %s", amount, resource)
}

func bytesText(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	value, unit := float64(n), 0
	for (value >= 1024 || value <= -1024) && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	return fmt.Sprintf("%.4g %s", value, units[unit])
}
