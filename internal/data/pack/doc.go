// Package pack owns objects that hold many blobs: one PUT and one sync for
// thousands of small files.
//
// Vocabulary:
//
//   - A blob is a run of bytes with a name. A [Place] is where one lies.
//   - Stored is a blob as it lies in a pack, a zstd frame where that saves room;
//     raw is what it is.
//   - A pack is an 8 byte magic, the stored blobs one after the other, an index of
//     them, and a trailer with the length and the hash of the index.
//   - A blob of two parts has what it says, which its name is the hash of, and
//     where that lies, which may change while it says the same ([Join], [Split]).
//
// It must not know files, paths or commits.
package pack
