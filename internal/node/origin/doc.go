// Package origin asks whether the Placement that a pod was made from still stands.
//
// A [Reader] reads Placements past any cache. Pods of one gang that are seen together
// share a read, which begins after all of them were seen.
//
// It must not know what runs on this machine, nor what becomes of a pod that is refused.
package origin
