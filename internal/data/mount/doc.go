// Package mount owns file systems that show a part of a commit without its having
// been fetched: names are read as folders are listed, bytes as files are read. It
// speaks with the kernel by FUSE.
//
// Vocabulary:
//
//   - A [Mount] is a file system that this process serves. Its point is the folder
//     at which it is. It ends when it is unmounted, by whomever.
//   - A node is what the kernel knows of a path, by a number that it gets from us: a
//     hash of the path, so that numbers of files stay from one mount to the next.
//   - A chunk is a piece of a file as the store keeps it. What is read is served
//     out of whole chunks, which were checked against their hashes; the last ones
//     used are kept in memory, and those that a reader who goes on will want next
//     are read ahead.
//
// A commit never changes, so the kernel is told to keep what it learned: names that
// are not there, attributes, listings and pages of files. All files have the time of
// the commit, belong to who serves the mount, and can be read by everybody and
// written by nobody.
//
// What cannot be read because it is damaged gives EIO, and the log says what; what
// cannot be read now is tried again for a while first.
//
// The package must not know Kubernetes, who reads, or how many mounts there are.
package mount
