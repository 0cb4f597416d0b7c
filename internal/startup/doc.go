// Package startup judges the start of a pod: the fault that keeps it from starting, in the words of
// its node, the time for which the fault may last, and whether another try is of use; whether its
// node refused it; and whether the cluster, and not the pod itself, ended it. It is a pure rule
// over a pod and the warnings that its node wrote about it.
//
// Vocabulary: a fault is an error that a node reports before all containers of a pod have started.
// The node tries again by itself; the patience with a fault is the time for which the attempt keeps
// its GPUs meanwhile.
//
// It must not know gangs, placements or the API server.
package startup
