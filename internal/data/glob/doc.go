// Package glob compiles patterns of paths, and finds the matching entries of a tree.
//
//   - An empty pattern matches all paths. A plain path matches itself and the paths below
//     it. A glob has *, ?, [a-z] or **. [Compile] returns the [Pattern].
//   - [Base] and [Literal] convert a pattern into a path. [Inside] converts a path into a
//     pattern.
//
// The package must not know commits, nor the use of the paths.
package glob
