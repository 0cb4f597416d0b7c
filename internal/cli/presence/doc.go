// Package presence looks, before a verb begins, whether Muster is installed on the cluster
// that the verb talks to, and whether a manager leads there. It is one read: the lease of
// the scheduler, and of a cluster without one also whether it serves Muster's kinds.
//
// It must not know what verbs do. The command line tells it which verbs need no Muster.
package presence
