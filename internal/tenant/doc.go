// Package tenant owns the objects of a user of Muster, on a cluster or on a machine that several
// users share: a namespace with the user's rights, a queue, network policies that let only members
// of gangs reach one another, and a kubeconfig.
//
// A tenant is a namespace that carries the label of a user. The tenant's other objects are in the
// namespace and are removed with it. Exceptions are the queue and the right to read the names of
// queues, which is a ClusterRoleBinding with the same label.
//
// The kubeconfig holds a token of a service account in that namespace, asked
// for by TokenRequest: its life is bounded, removing the tenant ends it at
// once, and every cluster gives one. A client certificate could not be taken
// back, and not every cluster signs one.
//
// A [Profile] is what differs on one machine: the user is a Unix user, and there are
// no network policies, no Pod Security and no tokens.
//
// A [Keeper] makes the tenants of one machine as their users come.
//
// It must not know any command, nor how jobs run.
package tenant
