package placement

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Whole is one GPU, in milli.
const Whole = 1000

// Amount is a named integer resource other than CPU, memory, pods and GPUs.
type Amount struct {
	Name  string
	Value int64
}

// Policy orders the nodes on which an ask fits.
type Policy uint8

// The policies.
const (
	// Muster keeps what is left useful for the work that usually comes
	// (see Cluster.SetWorkload), and uses nodes without GPUs first for asks
	// that want none. The default.
	Muster Policy = iota
	// FGD is fragmentation gradient descent as published (ATC '23), with its
	// integer scores. For comparison.
	FGD
	// BestFit takes the node with the least CPU and GPU left. For comparison.
	BestFit
	// Random takes any node and any GPU. For comparison; its draws come from
	// Options.Seed.
	Random
	// Spread takes the node with the most left.
	Spread
)

var policyNames = [...]string{"muster", "fgd", "bestfit", "random", "spread"}

// String is the policy's name in flags and output.
func (p Policy) String() string {
	if int(p) < len(policyNames) {
		return policyNames[p]
	}
	return "policy " + strconv.Itoa(int(p))
}

// ParsePolicy is the policy of that name.
func ParsePolicy(name string) (Policy, error) {
	for i, n := range policyNames {
		if n == name {
			return Policy(i), nil
		}
	}
	return 0, fmt.Errorf("policy %q is not known; it is one of %s", name, strings.Join(policyNames[:], ", "))
}

// Ask is what one member wants. At most one of GPUs and a share (ShareMilli or
// ShareMiB) may be set.
type Ask struct {
	// MilliCPU, MemoryBytes and Pods are taken from the node. A pod takes one
	// of Pods; 0 is for callers that count pods elsewhere.
	MilliCPU, MemoryBytes, Pods int64
	// Other are further named resources, each name once.
	Other []Amount
	// GPUs is how many whole GPUs, all of one model and on one node.
	GPUs int
	// ShareMilli is how much of one GPU, from 1 to 999. Where ShareMiB is 0,
	// the same part of that GPU's memory goes with it, rounded down.
	ShareMilli int64
	// ShareMiB is how much memory of one GPU. Where ShareMilli is 0, the same
	// part of that GPU's milli goes with it, rounded up. A GPU of unknown
	// memory serves no ask that names ShareMiB.
	ShareMiB int64
	// Models are the GPU models that will do; empty means any. With InOrder an
	// earlier one is preferred wherever it has room.
	Models  []string
	InOrder bool
	// Rule is the identity of the predicate that says which nodes are
	// eligible; asks with the same Rule share its answers. Empty means every
	// node is eligible.
	Rule string
	// Leaning names the function that says how gladly a node is taken. Empty:
	// one like the other.
	Leaning string
	// Policy orders the nodes.
	Policy Policy
}

// wantsGPU says whether the ask takes anything of a GPU.
func (a *Ask) wantsGPU() bool { return a.GPUs > 0 || a.share() }

func (a *Ask) share() bool { return a.ShareMilli > 0 || a.ShareMiB > 0 }

// Check says what is wrong with the ask, naming the field, what was given and
// what is allowed.
func (a *Ask) Check() error {
	var errs []error
	amount := func(field string, v int64) {
		if v < 0 || v > MaxAmount {
			errs = append(errs, fmt.Errorf("%s is %d; it must be from 0 to %d", field, v, int64(MaxAmount)))
		}
	}
	amount("milliCPU", a.MilliCPU)
	amount("memoryBytes", a.MemoryBytes)
	amount("pods", a.Pods)
	amount("shareMiB", a.ShareMiB)
	for i, o := range a.Other {
		amount(o.Name, o.Value)
		if o.Name == "" {
			errs = append(errs, fmt.Errorf("other resource %d has no name", i))
		}
		if slices.ContainsFunc(a.Other[:i], func(p Amount) bool { return p.Name == o.Name }) {
			errs = append(errs, fmt.Errorf("other resource %q is given twice", o.Name))
		}
	}
	if a.GPUs < 0 || a.GPUs > MaxDevices {
		errs = append(errs, fmt.Errorf("gpus is %d; one member may have from 0 to %d", a.GPUs, MaxDevices))
	}
	if a.ShareMilli < 0 || a.ShareMilli >= Whole {
		errs = append(errs, fmt.Errorf("shareMilli is %d; a share is from 1 to 999, and 1000 is gpus: 1", a.ShareMilli))
	}
	if a.GPUs > 0 && a.share() {
		errs = append(errs, errors.New("both whole GPUs and a share are asked for; a member takes one or the other"))
	}
	if int(a.Policy) >= len(policyNames) {
		errs = append(errs, fmt.Errorf("%s is not known", a.Policy))
	}
	return errors.Join(errs...)
}

// key is the identity of the ask: equal keys, equal asks.
func (a *Ask) key() string {
	b := make([]byte, 0, 96)
	num := func(v int64) { b = append(strconv.AppendInt(b, v, 36), ',') }
	num(a.MilliCPU)
	num(a.MemoryBytes)
	num(a.Pods)
	num(int64(a.GPUs))
	num(a.ShareMilli)
	num(a.ShareMiB)
	num(int64(a.Policy))
	for _, o := range sortedAmounts(a.Other) {
		b = strconv.AppendQuote(b, o.Name)
		num(o.Value)
	}
	b = append(b, '|')
	models := a.Models
	if !a.InOrder {
		models = slices.Clone(models)
		slices.Sort(models)
		models = slices.Compact(models)
	} else {
		b = append(b, '>')
	}
	for _, m := range models {
		b = strconv.AppendQuote(b, m)
	}
	b = append(b, '|')
	b = strconv.AppendQuote(b, a.Rule)
	if a.Leaning != "" {
		b = strconv.AppendQuote(append(b, '|'), a.Leaning)
	}
	return string(b)
}

// sortedAmounts are the amounts that are not zero, by name.
func sortedAmounts(other []Amount) []Amount {
	out := slices.DeleteFunc(slices.Clone(other), func(o Amount) bool { return o.Value == 0 })
	slices.SortFunc(out, func(x, y Amount) int { return strings.Compare(x.Name, y.Name) })
	return out
}
