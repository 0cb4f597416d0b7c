// Package memberstatus reads the status of a member's pod: whether and how the pod
// ended, since when it runs, what it used, what its node reports of data, progress
// and shares of GPUs.
//
// Vocabulary: a node takes a pod or refuses it; data is awaited while it is on its
// way to the node; an exit code is permanent if the same would happen again.
//
// The package is pure: each function is told pods and asks nobody. It decides
// nothing: package gang does.
package memberstatus
