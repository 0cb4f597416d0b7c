package simulate

import (
	"fmt"
	"strings"
)

// Options are what a policy may need to know besides the cluster.
type Options struct {
	// Jobs are the jobs to come, with their true run times. Only an oracle
	// reads them.
	Jobs []Job
	// Restart is what a preemption adds to the rest of a job's run.
	Restart Micros
	// Seed is for policies that make random choices.
	Seed uint64
}

// constructor is one entry of the registry.
type constructor struct {
	name, about string
	make        func(ClusterSpec, Options) (Policy, error)
}

// constructors are the policies, in the order in which they are listed.
var constructors = []constructor{
	{"muster", "the production scheduler: shorter first, ageing, reservations, eviction priced in lost work", newMuster},
	{"fifo", "strictly first come, first served, best fit", newFIFO},
	{"greedy-spread", "whatever fits, oldest first, on the emptiest node, as kube-scheduler does", newGreedySpread},
	{"greedy-bestfit", "whatever fits, oldest first, on the fullest node, as Kueue and Volcano do", newGreedyBestFit},
	{"easy", "EASY backfill with one reservation, as Slurm does", newEASY},
	{"sjf-oracle", "shortest first, knowing the true run times; no preemption", newSJF},
	{"las", "least attained service in two dimensions, preemptive, as Tiresias does", newLAS},
}

// Policies lists the names of the policies, in the order in which they are
// compared.
func Policies() []string {
	names := make([]string, len(constructors))
	for i, one := range constructors {
		names[i] = one.name
	}
	return names
}

// About says in a few words what the policy does; empty if there is none of
// this name.
func About(name string) string {
	for _, one := range constructors {
		if one.name == name {
			return one.about
		}
	}
	return ""
}

// NewPolicy makes the policy of this name for one replay on the cluster.
func NewPolicy(name string, cluster ClusterSpec, options Options) (Policy, error) {
	for _, one := range constructors {
		if one.name == name {
			return one.make(cluster, options)
		}
	}
	return nil, fmt.Errorf("policy %q: there is no such policy; allowed are %s", name, strings.Join(Policies(), ", "))
}
