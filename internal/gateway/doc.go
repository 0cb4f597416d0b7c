// Package gateway owns the S3 side of versioned data: unmodified S3 clients read and
// write datasets as s3://DATASET/VERSION/PATH. The protocol (routes, signatures,
// checksums on the way, XML) is versitygw's; this package is the backend behind it.
// docs/design/open/006-gateway.md has what was decided and why.
//
// Vocabulary:
//
//   - A bucket is a dataset of the namespace that the caller's key belongs to. The
//     first part of a key is the version: a branch, a tag, or a commit that one of
//     them leads to; the rest is the path in it.
//   - A [Grant] is what a key of a user opens; a [Keyring] knows them and whether their
//     users may do a thing. A [Catalog] knows the datasets of a namespace.
//   - A change is one write that waits. A lane is all changes to one branch: those that
//     come at about the same time become one commit, and each is answered once that
//     commit is durable.
//   - An upload is a file that comes in parts, which are kept on disk until it is
//     complete.
//
// It must not know Kubernetes, nor how the store keeps what it is given.
package gateway
