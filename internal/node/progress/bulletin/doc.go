// Package bulletin puts what was found out of a pod's progress into the terms of
// the API, and says which of it is worth a write: the same whoever looks, a node
// of Muster's own or an agent beside a kubelet.
//
// Vocabulary: a bulletin is what the API is told of one pod, as a condition of
// that pod. It must not know how anything is found out, nor who writes it.
package bulletin
