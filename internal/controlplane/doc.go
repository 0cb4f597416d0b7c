// Package controlplane runs the embedded control plane: upstream's etcd,
// kube-apiserver and controllers, unpatched, from inside the binary.
//
// Upstream ends its process on some failures and cannot be started twice in
// one, so it runs in a child: the same executable under the hidden verb
// "control-plane", whose body is package upstream. This package is the
// supervisor in the parent. It owns the data folder's lock, certificates,
// kubeconfig, port and log file; it starts the child, waits until the API is
// ready and Muster's own kinds are served, replaces a child that dies (a few
// times), and stops it in order.
//
// Vocabulary: the data folder holds all that survives; the child is the
// process that upstream runs in; an order is what the supervisor tells it, a
// report what it says back (package contract); manifests are the objects that
// must exist before [Start] returns.
//
// A shared control plane ([Options.Shared]) serves several users of the machine: a front
// proxy names them, by a certificate of an authority of its own; Muster's own parts have
// identities of their own; the rules, which are roles and policies, are applied before
// [Start] returns and follow the version.
//
// It must not import upstream, so that its users build in seconds: only the
// binary's main joins the two. It knows nothing of jobs, nodes or scheduling,
// and whoever receives the rest.Config cannot tell this control plane from any
// other.
package controlplane
