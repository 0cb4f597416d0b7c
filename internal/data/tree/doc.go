// Package tree owns what a commit holds: an ordered map from paths to entries, as
// a prolly tree, a search tree whose nodes end where the hash of a key says so.
// The same entries are the same tree, byte for byte, whatever was done to get
// there; two trees are compared at the cost of what differs. (The idea is of
// Noms and Dolt: A. Boodman et al., "Prolly Trees", Noms documentation, 2016.)
//
// Vocabulary:
//
//   - An [Entry] is a file or a symbolic link. A key is its whole path.
//   - A leaf holds entries, an inner node [Ref]s to nodes of the level below, each
//     with the last key in it and how many files and bytes there are.
//   - A [Root] names a whole tree; the zero root is the empty one.
//   - An [Edit] sets or removes one key.
//
// It must not know where blobs are kept, nor what a commit is.
package tree
