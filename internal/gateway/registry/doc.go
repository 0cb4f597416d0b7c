// Package registry is what Kubernetes knows that the S3 gateway needs: the datasets of
// a namespace, the access keys of its users, and what these may do.
//
// Vocabulary: an access key names the user (and groups) for whom it was made. Kubernetes
// is asked what this user may do with a dataset (SubjectAccessReview), and an answer
// counts for some seconds. On one machine a key is a Secret of type muster.dev/access-key
// in the namespace whose datasets it opens. On a cluster others could read that Secret, or
// make one that names somebody else, so the keys of all namespaces are in a vault. A vault
// is a fixed number of Secrets of the manager's namespace, the shards, of type
// muster.dev/access-keys. Their names are fixed, too, so that the manager has rights on
// them by name. A shard holds many keys, each under its ID, and is written by comparison
// and swap. A key ends with its namespace: one that is made later under the same name has
// another UID. An earlier version kept each key of a vault in a Secret of its own;
// [Vault.Copy] and [Vault.Settle] move these, with an administrator's rights.
//
// It must not know S3, nor what a commit holds.
package registry
