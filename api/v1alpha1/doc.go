// Package v1alpha1 holds Muster's API kinds: what users say (TrainingJob,
// Queue, Dataset) and what controllers say to one another (Gang, Placement).
//
// It owns names, fields, defaults and validation markers, and no behaviour: a
// reader learns the whole vocabulary of the system here and nothing of how it
// works. It imports the Kubernetes API types and nothing else, so that every
// other package, the pure scheduling core included, may import it.
//
// A TrainingJob becomes one Gang (roles x replicas x resources). The scheduler
// answers a Gang with a Placement, the immutable journal of one attempt: which
// member goes to which node, with which GPUs. Pods are created from the
// Placement, already carrying nodeName.
//
// +kubebuilder:object:generate=true
// +groupName=muster.dev
package v1alpha1
