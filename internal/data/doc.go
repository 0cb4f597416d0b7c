// Package data owns versioned data: datasets whose commits are kept for ever, in
// a folder, a bucket or memory. Its parts are digest (names of content), chunk
// (where files are cut), pack (many blobs in one object), tree (paths and what is
// there), commit, ref (heads) and backend (where bytes lie); this package is the
// door to them. docs/design/open/005-data.md has the formats and why.
//
// Vocabulary:
//
//   - A [Store] keeps the bytes of any number of datasets; what is equal is there
//     once. A [Dataset] is a store and the heads of one dataset.
//   - A reference names a commit: a branch, a tag, a commit's hash or the first 8
//     or more digits of it, each with ~N behind it for the Nth commit before;
//     empty is the branch main.
//   - A [View] is what one commit holds. A [Session] is a change to a branch that
//     nobody sees before its commit. An open commit of a branch takes many changes, and is
//     one commit of the branch once it is closed.
//   - A path is relative, with slashes, without empty, "." or ".." parts; a folder
//     is there where something is below it.
//   - A lease keeps collections away from what somebody writes or reads.
//
// It must not know Kubernetes, nor who asks.
package data
