// Package gang is the controller of Gangs: it makes the pods of a Placement,
// starts failed members again, decides the outcome, stops what is left and
// gives everything back.
//
// Vocabulary: a member is a role and an index; its pod is named
// <gang>-<role>-<index>; an attempt is the life of one Placement; to drain is
// to stop the members of an attempt and then release its Placement; a member
// that is done ended successfully and does not run again; to evict is to drain
// an attempt on the scheduler's order, so that another gang has room; late is a
// Placement that a scheduler wrote after it was replaced, or that arrived
// twice; a node leaves when it is about to go, and puts a member out that it, or
// the cluster, ended already; to release by force is to give an attempt back without waiting for its
// members.
//
// The life of an attempt is durable before it has effects: that an attempt
// drains, that the outcome is decided and that a failure was counted is
// written to the gang's status first; only then are pods deleted. A Placement
// is released last: marked first, and freed after a read past the cache has
// shown that no pod is left that holds anything. So a crash between any two writes leaves a state that
// the next reconciliation finishes.
//
// decide.go and its neighbours are pure; controller.go reads and writes. The
// package knows nothing of how plans are made or how pods are run.
package gang
