// Package volume makes a pod's volumes exist on this machine and says how each
// container sees them.
//
// # Vocabulary
//
// A [Volume] is a folder (or file) of the machine. To prepare is to make a
// pod's volumes exist; it may be repeated, which also brings ConfigMaps,
// Secrets, downward fields and tokens up to date. A payload is the set of
// files that such a volume holds; it is swapped as a whole, so that a reader
// never sees half of an update. A view is how one container sees the volumes:
// mounts where containers have a file system view of their own, links below
// the pod's root folder where they do not.
//
// Code snapshots are checked out once a job and shared by its members on this
// node; environments and data are used where they lie.
//
// The package must not know why a container runs or when. What is not there
// yet is an error that says what is waited for; the caller tries again.
package volume
