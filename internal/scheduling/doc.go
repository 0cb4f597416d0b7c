// Package scheduling is the decision core: a Snapshot of the world goes in,
// Plans and Reasons come out.
//
// Vocabulary: a request is anything that wants resources together, a gang or a
// lone pod; a role is one part of it, its members are alike; a plan says for
// every member of a request which node, which GPUs and which port it gets; a
// holding is what a placed member or a pod has now; the ledger is the sum of
// all holdings; a reason says in words and data why a request waits.
//
// A plan is whole or there is none. Requests are considered in the order of
// priority, creation and name; a later one may start while an earlier one does
// not fit.
//
// The package is pure: no client, no clock, no goroutine, no logger and no
// package of Kubernetes. Times are values in the snapshot. The same snapshot
// gives the same bytes, in whatever order its lists are.
package scheduling
