// Package conformance holds what must be the same wherever Muster runs: the
// same tests, by API, kubectl and CLI alone, against embedded Muster and against
// a real Kubernetes. A difference is a bug.
//
// $MUSTER_PLATFORM says against which: "embedded" (the default) starts one in
// each tier that the machine allows; "cluster" starts a real Kubernetes
// whose GPUs a device plugin counts, "agent" one where Muster's agent names them.
//
// Vocabulary: a platform is one Muster, with four GPUs that are all alike and
// an image in which there are a shell, bash and busybox. How members run, and on how many nodes, a
// test cannot tell.
package conformance
