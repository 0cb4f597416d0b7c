// Package reference finds out whether the objects that a pod names are there and
// can be used: claims with a volume, and Secrets and ConfigMaps with their keys. A
// pod that names others would hold its GPUs and never start.
//
// Vocabulary: a reference is a name of an object in a pod; an optional one may be
// missing.
//
// It must not know the maker of the pod, or the use of the answer.
package reference
