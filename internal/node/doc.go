// Package node runs the pods that are bound to this machine as processes.
//
// It owns the life of a pod on the machine: admission, volumes, network,
// containers, probes, status, removal; and the Node object with its lease and
// its inventory of GPUs.
//
// # Vocabulary
//
// A worker is the one goroutine that owns a pod, from the first sight of it to
// the removal of its folder; it is known by the pod's UID, never by its name,
// so that a pod and its successor of the same name do not touch. A unit is a
// container with all its attempts: an attempt is one start of it. A record is
// what is kept on disk so that the next muster recognises the pod. To adopt is
// to take over what an earlier muster left running; what cannot be matched to
// a pod and not safely be called deleted is quarantined: left running, its
// GPUs held. The ledger says which pod holds which GPUs and ports here.
//
// # How it works
//
// A worker sleeps until something happens: the pod changed, a process ended, a
// probe or hook or timer fired, a write was acknowledged. It then looks at
// everything, decides (lifecycle, pure), does it, and hands the new status
// (status.go, pure) to its writer, which keeps only the newest. Slow work
// happens in tasks that the worker owns and waits for; they report back by
// posting a function into the worker's mailbox, so that all state of a worker
// is touched by its goroutine alone.
//
// The package must not know why a pod exists: gangs, jobs and the scheduler
// are other people's business.
package node
