// Package alternative knows kinds of other systems that neither Muster nor Kubernetes
// serves, and says for each what does the same work in Muster.
//
// It must not know any command's code, nor ask a server.
package alternative
