package node

import (
	"sync"

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

// pids are the numbers of all processes of all trees.
func (r *registry) pids() map[int]bool {
	r.mu.Lock()
	list := make([]*process.Process, 0, len(r.set))
	for p := range r.set {
		list = append(list, p)
	}
	r.mu.Unlock()
	pids := map[int]bool{}
	for _, p := range list {
		for _, pid := range p.PIDs() {
			pids[pid] = true
		}
	}
	return pids
}
