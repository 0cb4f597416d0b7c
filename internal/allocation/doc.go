// Package allocation keeps the ResourceClaims of a cluster, and lists the GPUs of Muster's nodes
// that are allocated to claims that Muster did not make. It is pure.
//
// # Vocabulary
//
// An own claim is one that Muster made for a pod that Muster placed: see [Own]. The ledger counts
// its GPUs by the pod. A claim of others is any other allocated claim: kube-scheduler, another
// scheduler or a person allocated it. A holding is the part of one GPU that a claim of others has.
// Results with adminAccess reserve nothing, so they are no holdings.
//
// A claim holds its GPUs until it is deallocated, also after its pods have ended: until then they
// are in use for the API server.
//
// # What it must not know
//
// The API server, gangs, plans, and the reaction to a GPU that others hold.
package allocation
