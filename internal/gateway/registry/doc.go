// Package registry is what Kubernetes knows that the S3 gateway needs: the datasets of
// a namespace, the access keys of its users, and what these may do.
//
// Vocabulary: an access key is a Secret of type muster.dev/access-key in the namespace
// whose datasets it opens; it names the user (and groups) for whom it was made, and
// what the user may do with a dataset is asked of Kubernetes (SubjectAccessReview).
// What was found out counts for some seconds.
//
// It must not know S3, nor what a commit holds.
package registry
