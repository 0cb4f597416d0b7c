// Package source keeps code: folders and files become snapshots, named by
// their content, that can be laid out again anywhere, bit for bit.
//
// Vocabulary:
//
//   - A blob is the content of one file, stored once under its SHA-256.
//   - A tree is the list of a snapshot's files, folders and symbolic links with
//     their modes, as canonical JSON; its SHA-256 is the snapshot's digest,
//     "sha256:<hex>".
//   - An index remembers, for one folder, which content each file had when it
//     was last read, by inode, size and times, so that an unchanged folder is
//     not read again.
//   - A checkout is a private, writable copy of a snapshot.
//   - A fetch turns a URL into a snapshot of one file.
//
// What always holds: a tree is written after all of its blobs are on disk, and
// every file reaches its name by a rename, so that a store that lost power or
// was killed holds only whole snapshots and left-over temporary files, which
// the next [Open] removes. Several processes may use one store at once.
//
// It knows neither Kubernetes nor jobs: who asks for a snapshot, and what runs
// from it, is for others to know.
package source
