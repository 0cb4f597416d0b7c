// Package address owns how users name versioned data on a command line:
//
//	DATASET[@VERSION][:PATH]
//
// VERSION is a branch, a tag or a commit, each perhaps followed by ~N for the
// commit N before it; without one, the branch main is meant. PATH is a file or
// folder in it, with or without a slash before it; without one, everything.
// In commands that take patterns, PATH may hold *, ? and [...], which stay
// within a name, and **, which stands for any number of folders; a backslash
// takes away their meaning.
//
// It must not know where data is kept, nor ask whether what is named exists.
package address
