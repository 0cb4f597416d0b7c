// Package deviceclaim is the controller of the claims by which members get their
// GPUs on nodes where a driver gives them.
//
// A member's pod is made with the name of a claim, and with annotations that say
// which GPUs of its node it was given, and how much of the one. This controller
// makes that claim, allocates it accordingly and reserves it for the pod, which
// takes the pod's UID, in two writes. A kubelet that looked before that would look
// again in a minute or so: a third write, to the pod, wakes it. The claim belongs
// to the pod: Kubernetes takes the allocation back when the pod has ended, and
// removes the claim with it. So nothing is left of a gang whose pods are gone.
//
// What the driver then says of the claim, whether a share is enforced, is passed
// on to the pod, where everybody reads it.
//
// It knows nothing of gangs beyond their label, nor of how GPUs are chosen.
package deviceclaim
