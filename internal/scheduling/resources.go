package scheduling

import "sort"

// Resources are amounts of what nodes have beside GPUs.
type Resources struct {
	// MilliCPU is CPU time, in thousandths of a core.
	MilliCPU int64
	// Memory is in bytes.
	Memory int64
	// Pods is a number of pods.
	Pods int64
	// Other are amounts of anything else, by name, in whole units.
	Other map[string]int64
}

// plus returns the sum of two amounts.
func (r Resources) plus(o Resources) Resources {
	return r.combine(o, 1)
}

// minus returns the difference of two amounts.
func (r Resources) minus(o Resources) Resources {
	return r.combine(o, -1)
}

// times returns n times the amount.
func (r Resources) times(n int64) Resources {
	out := Resources{MilliCPU: n * r.MilliCPU, Memory: n * r.Memory, Pods: n * r.Pods}
	if len(r.Other) > 0 {
		out.Other = make(map[string]int64, len(r.Other))
		for name, amount := range r.Other {
			out.Other[name] = n * amount
		}
	}
	return out
}

func (r Resources) combine(o Resources, sign int64) Resources {
	out := Resources{
		MilliCPU: r.MilliCPU + sign*o.MilliCPU,
		Memory:   r.Memory + sign*o.Memory,
		Pods:     r.Pods + sign*o.Pods,
		Other:    r.Other,
	}
	if len(o.Other) == 0 {
		return out
	}
	out.Other = make(map[string]int64, len(r.Other)+len(o.Other))
	for name, amount := range r.Other {
		out.Other[name] = amount
	}
	for name, amount := range o.Other {
		out.Other[name] += sign * amount
	}
	return out
}

// The names of resources in reasons.
const (
	resourceCPU    = "cpu"
	resourceMemory = "memory"
	resourcePods   = "pods"
)

// short returns the name of the first resource of which there is less than
// wanted, in a fixed order, and "" if there is enough of all. Nothing wanted
// always fits, also where a resource is overdrawn.
func (r Resources) short(want Resources) string {
	switch {
	case want.MilliCPU > 0 && want.MilliCPU > r.MilliCPU:
		return resourceCPU
	case want.Memory > 0 && want.Memory > r.Memory:
		return resourceMemory
	case want.Pods > 0 && want.Pods > r.Pods:
		return resourcePods
	}
	for _, name := range sortedKeys(want.Other) {
		if want.Other[name] > 0 && want.Other[name] > r.Other[name] {
			return name
		}
	}
	return ""
}

// amount returns how much of the named resource there is.
func (r Resources) amount(name string) int64 {
	switch name {
	case resourceCPU:
		return r.MilliCPU
	case resourceMemory:
		return r.Memory
	case resourcePods:
		return r.Pods
	}
	return r.Other[name]
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
