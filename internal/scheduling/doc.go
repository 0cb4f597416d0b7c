// Package scheduling is the decision core: what happens goes in, plans,
// evictions and reasons come out.
//
// A Core keeps what decisions depend on and is told of changes; Decide makes
// one of a whole Snapshot. The live loop, the explanations of the CLI and the
// simulator use the same Core.
//
// Vocabulary: a request is anything that wants resources together, a gang or a
// lone pod; a role is one part of it, its members are alike; a plan says for
// every member of a request which node, which GPUs and which port it gets; a
// holding is what a placed member or a pod has now; the ledger is the sum of
// all holdings; a reason says in words and data why a request waits. A request
// is overdue when it has waited beyond its patience; a promise is a set of
// nodes kept free for one that is; an eviction stops a placed request so that
// another can start.
//
// A plan is whole or there is none. Requests take turns by the shares of their
// queues and users, then by priority, by classes of expected remaining run
// time, and by age. A later one may start while an earlier one does not fit,
// unless that would delay one that is overdue.
//
// The package is pure: no client, no clock, no goroutine, no logger and no
// package of Kubernetes. Times are values in the snapshot. The same snapshot
// gives the same bytes, in whatever order its lists are.
package scheduling
