// Package scaling asks for nodes: a cluster's autoscaler makes them for pods that
// no node takes, and a gang that waits has no pods.
//
// Vocabulary: a placeholder is a pod in Muster's own namespace that asks for what
// one member of a waiting gang will ask for, and never runs; a gang wants nodes
// when the scheduler says that it would start if nodes came.
//
// A placeholder is made for every member at once, or for none. It names Muster's
// scheduler, so that no other one binds it, and Muster does not: what it asks for
// is in nobody's ledger. That it finds no node is written into its status by this
// package, in the words by which Cluster Autoscaler and Karpenter recognise such
// pods: the condition PodScheduled, False, Unschedulable. It is in Muster's own
// namespace so that it counts against no quota of the gang's.
//
// decide.go is pure, as is pod.go. The package must not know why a gang wants
// nodes, nor whether anybody makes them.
package scaling
