// Package disruption guards gangs of several members against being torn: who
// drains a node or saves machines evicts pods one by one, and one member less
// stops the work of all.
//
// Vocabulary: a guarded pod carries the label muster.dev/guarded; the budget is
// the PodDisruptionBudget of its namespace that selects such pods and never
// allows one to be evicted. While a pod's node is cordoned or about to go, its
// guard is down: the label is off, and an eviction passes, which the controller
// of gangs answers by ending the whole attempt. So a plain `kubectl drain` waits
// for the guard for a moment and then ends well.
//
// There is one budget for a namespace, made with its first gang of several
// members, so that a job costs no write; pods have the label from their birth.
// The budget asks for more available pods than there can be, as a number: a
// share, or maxUnavailable, would have the controller manager look for a scale
// of the Gang, which has none.
//
// decide.go is pure, the rest reads and writes. It must not know what is done
// about a gang whose node leaves, nor how plans are made.
package disruption
