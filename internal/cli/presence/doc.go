// Package presence checks, before a verb begins, that Muster is installed on the verb's cluster,
// and that a manager leads there. It reads the Lease of the scheduler. Without one, it also checks
// whether the cluster serves Muster's kinds.
//
// It must not know the work of verbs. The command line tells it which verbs need no Muster.
package presence
