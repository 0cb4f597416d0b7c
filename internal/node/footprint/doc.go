// Package footprint bounds the space that the files of each user have on the disk of Muster's data
// folder, on a machine that several users share.
//
// A [Keeper] measures the files of users again and again. A user with more than the quota gets no
// new pods, and loses running ones, the largest first, as by a kubelet's ephemeral-storage eviction.
// If the disk itself is short of space, the user with the most files loses pods, below the quota, too.
//
// The package must not know pods beyond their UIDs, nor how they are stopped.
package footprint
