// Package registry is what Kubernetes knows that the S3 gateway needs: the datasets of
// a namespace, the access keys of its users, and what these may do.
//
// Vocabulary: an access key is a Secret of type muster.dev/access-key; it names the user
// (and groups) for whom it was made, and what the user may do with a dataset is asked of
// Kubernetes (SubjectAccessReview). On one machine it is in the namespace whose datasets
// it opens; on a cluster in a vault, which is a namespace of the manager's: elsewhere
// others could read it, or make one that names somebody else. What was found out counts
// for some seconds.
//
// It must not know S3, nor what a commit holds.
package registry
