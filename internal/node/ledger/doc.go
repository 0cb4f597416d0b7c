// Package ledger keeps the allocations of a node: the GPUs and ports of each pod.
//
// A [Ledger] allocates a pod's GPUs and ports only if no other pod holds them. An
// allocation lasts until the caller releases it.
//
// The package must not know the scheduler, nor processes.
package ledger
