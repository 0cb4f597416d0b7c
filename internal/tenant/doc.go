// Package tenant owns what somebody who uses Muster on a cluster, or with others on one
// machine, is there: a
// namespace of their own, with the rights in it, a queue that they may use, a
// network that only the members of gangs share, and a kubeconfig.
//
// A tenant is a namespace that carries the label of a user. Everything else of
// theirs lies in it and goes with it, but for the right to know the names of
// queues, which is cluster-wide and labelled alike, and the queue.
//
// The kubeconfig holds a token of a service account in that namespace, asked
// for by TokenRequest: its life is bounded, removing the tenant ends it at
// once, and every cluster gives one. A client certificate could not be taken
// back, and not every cluster signs one.
//
// A [Profile] is what differs on one machine: the user is a Unix user, and there are
// no network policies, no Pod Security and no tokens.
//
// It must not know any command, nor how jobs run.
package tenant
