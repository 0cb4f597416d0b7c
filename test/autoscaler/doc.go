// Package autoscaler has a real autoscaler make nodes for gangs: Karpenter, unpatched,
// in a pod of a real Kubernetes, with the provider of its own whose machines are Node
// objects alone. What kubelets would do there the test does: it says that the machines
// are well and that their pods run, and ends pods that are deleted.
//
// It wants root, as test/cluster does, and what hack/autoscaler-deps builds.
package autoscaler
