package node

import (
	"maps"
	"slices"
	"sync"

	"github.com/muster-dev/muster/internal/node/gpu"
	"github.com/muster-dev/muster/internal/node/process"
)

// registry is the set of processes that run. Its methods may be called
// concurrently.
type registry struct {
	mu  sync.Mutex
	set map[*process.Process]struct{}
}

func newRegistry() *registry { return &registry{set: map[*process.Process]struct{}{}} }

func (r *registry) add(p *process.Process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.set[p] = struct{}{}
}

func (r *registry) remove(p *process.Process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.set, p)
}

// pidsOf are the numbers of all processes of the wanted pods' trees.
func (r *registry) pidsOf(wanted func(pod string) bool) []int {
	r.mu.Lock()
	var list []*process.Process
	for p := range r.set {
		if wanted(p.Spec().PodUID) {
			list = append(list, p)
		}
	}
	r.mu.Unlock()
	var pids []int
	for _, p := range list {
		pids = append(pids, p.PIDs()...)
	}
	return pids
}

// holders are all processes of all trees, with what their containers have.
func (r *registry) holders() map[int]gpu.Holder {
	r.mu.Lock()
	list := slices.Collect(maps.Keys(r.set))
	r.mu.Unlock()
	all := map[int]gpu.Holder{}
	holders(all, list)
	return all
}

// holders adds the processes of containers, with what these have.
func holders(to map[int]gpu.Holder, list []*process.Process) {
	for _, p := range list {
		s := p.Spec()
		h := gpu.Holder{Name: s.Labels["namespace"] + "/" + s.Labels["name"], Locks: slices.Concat(s.Locks, s.SharedLocks)}
		for _, pid := range p.PIDs() {
			to[pid] = h
		}
	}
}
