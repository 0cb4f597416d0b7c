// Package passage makes ways to the Kubernetes API with the credential of a caller, for the server for
// people (internal/people/web).
//
// [Own] is for a server with one user: a Muster of one user, or a laptop with a kubeconfig. The
// credential is that of the kubeconfig, and other callers are refused. [Machine] is for a Muster that
// the users of a machine share: each request counts as the caller's own at the machine's socket.
//
// It must not know pages, sessions of browsers, or what is read by a way.
package passage
