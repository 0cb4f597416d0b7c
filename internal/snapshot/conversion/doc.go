// Package conversion converts API objects into values of the scheduler core: nodes,
// pods, the roles of gangs, shares of GPUs, and rules about other pods.
//
// Vocabulary:
//
//   - [GPUResources] are the extended resources that count as GPUs.
//   - A sample is a pod of a role before its placement.
//   - A pod is tied if it has pod affinity, pod anti-affinity or topology spread
//     constraints.
//
// The package is pure: each function converts one object and does no I/O. It must not
// know the set of objects, their changes, nor the core's decisions.
package conversion
