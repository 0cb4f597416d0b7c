// Package memberpod makes the pod of a gang's member from the gang, the placement and the
// addresses of the other members.
//
// It owns the labels and annotations by which Muster knows a member, the variables that tell
// a member of the others, and how a member asks for its GPUs. What a user writes is set
// first, so that it replaces none of these.
//
// It decides nothing and knows no API server: package gang says when a pod is made.
package memberpod
