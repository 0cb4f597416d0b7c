// Package kubelet serves the HTTP API that the API server asks a node on:
// logs, commands in containers, attaching, port forwarding, pods and a summary
// of what they use.
//
// It listens with mutual TLS: who cannot show a client certificate of the API
// server's gets nothing. It knows containers only through [Pods] and must not
// know how pods are run.
package kubelet
