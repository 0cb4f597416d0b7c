// Package outlook plays the time to come through in scenarios: when a waiting
// entry starts, and on which nodes.
//
// Vocabulary: an [Outlook] is the waiting, the running and the nodes in plain
// counters; a [Course] is one scenario of it, in which everything ends at another
// quantile of its own estimate; a [Lot] is what the members of one role ask for;
// a shape is a way to ask, which several of the waiting share; a [Stall] is what
// is held of one node; nodes that are kept free for the first of the overdue are
// a reservation.
//
// Scenarios follow the order of decisions, and leave out what costs much: ports,
// rules about other pods, and which of a node's GPUs are given. Times are spans
// from now on.
//
// The package knows no gang, and not how decisions place members: package
// scheduling makes an Outlook of what it keeps.
package outlook
