// Package origin asks the API server for the origin of a pod: whether its Placement still exists,
// and which TrainingJob owns it.
//
// A [Reader] reads Placements from the API server, without a cache. Pods of one gang that
// arrive together share a read, which begins after the last of them has arrived.
//
// The package must not know the processes of this machine, nor the handling of refused
// pods.
package origin
