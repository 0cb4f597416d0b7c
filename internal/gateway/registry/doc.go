// Package registry reads the objects of Kubernetes that the S3 gateway needs: the datasets of
// a namespace, the access keys of its users, and the rights of these users.
//
// Vocabulary: an access key names its user and the user's groups. The registry asks
// Kubernetes for this user's rights on a dataset (SubjectAccessReview), and caches an answer
// for some seconds. On one machine a key is a Secret of type muster.dev/access-key
// in the namespace of its datasets. On a cluster other users could read that Secret, or make
// one that names another user, so a vault holds the keys of all namespaces. A vault
// is a fixed number of Secrets of the manager's namespace, the shards, of type
// muster.dev/access-keys. Their names are fixed, too, so that the manager has rights on
// them by name. A shard holds many keys, each under its ID. The vault writes a shard by
// compare-and-swap. A key ends with its namespace: a later namespace of the same name has
// another UID. An earlier version kept each key of a vault in a Secret of its own;
// [Vault.Copy] and [Vault.Settle] move these keys, with an administrator's rights.
//
// It must not know S3, nor the content of a commit.
package registry
