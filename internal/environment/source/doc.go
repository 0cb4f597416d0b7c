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
//   - A parcel is a tree on its way between two stores, checked as that of
//     somebody who need not be trusted. A snapshot travels as one tar, and is
//     unpacked by whoever knows its digest.
//   - To prune is to remove the snapshots that may go, by a rule of package
//     retention, and the blobs that only they hold. A tree's time says when its
//     snapshot was last reserved; the time of the file of the same name in uses/
//     says when something last ran from it.
//
// What always holds: a tree is written after all of its blobs are on disk, and
// removed for good before any of them is; every file reaches its name by a
// rename. A store that lost power or was killed therefore holds only whole
// snapshots, left-over temporary files, which the next [Open] removes, and
// blobs that no tree names, which the next [Store.Prune] removes. Several
// processes may use one store at once: who stores or lays out holds its lock
// shared, who removes holds it alone.
//
// It knows neither Kubernetes nor jobs: who asks for a snapshot, and what runs
// from it, is for others to know.
package source
