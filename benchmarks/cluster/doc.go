// Command cluster measures Muster with a real API server in the loop, on
// static nodes that are objects alone, and prints every figure beside a target
// and as a ratio to the raw ceiling: the same writes without a scheduler,
// measured in the same run on the same server.
//
// Vocabulary: a plane is an API server with etcd that is started for one
// measurement; a fleet is the nodes in it; the ceiling is how fast bare
// creation is; a pretender takes the part of all kubelets: it says of pods that
// they run and that they ended, and lets deleted ones go.
//
// Everybody writes without a client-side limit of requests.
package main
