// Package alternative lists kinds of other systems that neither Muster nor Kubernetes serves, each
// with its replacement in Muster.
//
// It must not know any command's code, nor ask a server.
package alternative
