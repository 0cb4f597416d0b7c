// Package inventory is what ResourceSlices say of a node's GPUs, and the
// ResourceClaims by which they are given: the words that Muster's scheduler, its
// controllers and its node agent have in common. It is pure.
//
// # Vocabulary
//
// A GPU is one device of a slice. Its ID is what plans call it: its UUID, or
// pool and name where it has none. A driver is whose slice it is; drivers whose
// name begins with "gpu." have GPUs, others (networks, disks) do not. Muster's
// own is [Driver]. A GPU that is shared can be given in parts: it has capacity
// that several claims consume (Kubernetes 1.36 on).
//
// A claim says what one pod is given. It belongs to that pod and goes with it.
// A pool is what a driver gives out together, in one slice or several; a generation
// of it is whole once all its slices are there.
//
// Kubernetes's own scheduler never decides one: Muster writes the allocation.
//
// # What it must not know
//
// The API server, gangs, and how a container comes by a device.
package inventory
