// Package registry owns the set of containers of this machine that run, by which the node tells whose a
// process is.
//
// The package must not know pods beyond the labels of their containers.
package registry

import (
	"maps"
	"slices"
	"sync"

	"github.com/muster-dev/muster/internal/node/gpu"
	"github.com/muster-dev/muster/internal/node/process"
)

// Registry is the set of processes that run. Its methods may be called concurrently.
type Registry struct {
	mu  sync.Mutex
	set map[*process.Process]struct{}
}

// New returns an empty set.
func New() *Registry { return &Registry{set: map[*process.Process]struct{}{}} }

// Add notes a process.
func (r *Registry) Add(p *process.Process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.set[p] = struct{}{}
}

// Remove forgets a process.
func (r *Registry) Remove(p *process.Process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.set, p)
}

// PodsIn are the pods of a namespace that have processes, by UID.
func (r *Registry) PodsIn(namespace string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var pods []string
	for p := range r.set {
		if s := p.Spec(); s.Labels["namespace"] == namespace {
			pods = append(pods, s.PodUID)
		}
	}
	return pods
}

// PIDsOf are the numbers of all processes of the wanted pods' trees.
func (r *Registry) PIDsOf(wanted func(pod string) bool) []int {
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

// Holders are all processes of all trees, with what their containers have.
func (r *Registry) Holders() map[int]gpu.Holder {
	r.mu.Lock()
	list := slices.Collect(maps.Keys(r.set))
	r.mu.Unlock()
	all := map[int]gpu.Holder{}
	AddHolders(all, list)
	return all
}

// AddHolders adds the processes of containers, with what these have.
func AddHolders(to map[int]gpu.Holder, list []*process.Process) {
	for _, p := range list {
		s := p.Spec()
		h := gpu.Holder{Name: s.Labels["namespace"] + "/" + s.Labels["name"], Locks: slices.Concat(s.Locks, s.SharedLocks)}
		for _, pid := range p.PIDs() {
			to[pid] = h
		}
	}
}
