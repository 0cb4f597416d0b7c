// Package inventory has the GPUs of a node: which there are, what they do, and which processes of others use
// them. It writes them as the Node object's annotation.
//
// It must not know pods, but those whose processes this cluster does not know.
package inventory
