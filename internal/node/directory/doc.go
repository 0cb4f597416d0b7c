// Package directory knows who is where: it answers the names of Services and
// of pods, tells the pod network which addresses stand for which, and writes
// the variables by which containers find Services.
//
// # Vocabulary
//
// A member is a pod of this node with a host name and a subdomain, so a name
// of its own: <hostname>.<subdomain>.<namespace>.svc.cluster.local. Members are
// known from the moment they are bound, ready or not, because the members of a
// gang look for one another before any of them is ready; who asks for one that
// has no address yet waits for it a little.
//
// The package reads informer caches and writes nothing to the API. It must not
// know how packets are led to an address.
package directory
