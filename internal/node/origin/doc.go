// Package origin checks whether a pod's Placement still exists.
//
// A [Reader] reads Placements from the API server, without a cache. Pods of one gang that
// arrive together share a read, which begins after the last of them has arrived.
//
// The package must not know the processes of this machine, nor the handling of refused
// pods.
package origin
