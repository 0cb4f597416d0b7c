// Package conversion turns objects of the API into values of the decision core:
// nodes, pods, the roles of gangs, shares of GPUs, and rules about other pods.
//
// Vocabulary: [GPUResources] are the extended resources that count as GPUs; a
// sample is a pod of a role as it will be made but for its place; a pod is tied if
// it has rules about where other pods are.
//
// The package is pure: each function is told one object and asks nobody. It must
// not know which objects there are, what changed, nor what the core decides.
package conversion
