// Package memberpod makes the pod of a gang's member from the gang, the placement and the
// addresses of the other members.
//
// It owns the labels and annotations that identify a member, the rendezvous variables of a
// member, and the member's request for GPUs. It sets the values of the user first, so that
// they replace none of its own.
//
// It makes no decisions and knows no API server: package gang decides when to make a pod.
package memberpod
