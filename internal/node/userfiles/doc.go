// Package userfiles works with files of a Unix user as that user, for Muster that runs as root.
//
// A user controls the folders of their home, and may replace any part of a path by a link at any time.
// File servers may refuse root (NFS with root_squash, FUSE without allow_root), or give no answer. So
// Muster does not use such paths itself. A helper does: a process of the shim's program that becomes the
// user first. It opens, makes, lists and removes files, and passes file descriptors back.
//
// Vocabulary:
//
//   - A [User] is the identity that a helper takes on. There is one helper for each, which ends a short
//     time after its last call. The kernel checks each access of the helper as one of the user: FUSE
//     compares all user IDs of a process, so another fsuid of a thread is not enough.
//   - A [Place] is a path: Base, in which links are followed, and Below, in which none are.
//   - [Files] are the calls for one user. Each has a time limit: a user can stop or kill the helpers, and
//     file servers can hang. A helper that let a call time out is not used again.
//   - [Homes] are the folders of users in Muster's data folder, one each, of mode 0700.
//
// The package must not know pods, namespaces and volumes.
package userfiles
