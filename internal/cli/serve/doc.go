// Package serve is the command `muster serve`: Muster's controllers and its
// scheduler on a Kubernetes that is there already, elected among replicas.
//
// Before anything runs it looks whether that Kubernetes will do: its version,
// Muster's kinds, and the rights that were given. What is missing is refused in
// words; a server that does not answer is waited for.
//
// It must not know what a controller decides.
package serve
