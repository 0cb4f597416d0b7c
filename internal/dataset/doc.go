// Package dataset keeps the heads of versioned data in Kubernetes: the branches,
// open commits and tags of a Dataset object, behind the contract of internal/data/ref.
//
// A head moves by a change to the object as it was read, sent with its
// resourceVersion: the API server takes one of two such writes and refuses the
// other, which is then tried again on what is there by now, if the head in
// question has not moved. What the server has acknowledged is in etcd, durably.
//
// Vocabulary: heads, branches, open commits and tags as in internal/data/ref; everything is the
// heads of all datasets: what a collection must not touch.
//
// It must not know what a commit holds, nor where bytes are; how large a commit
// is, which the object shows, is told by a function.
package dataset
