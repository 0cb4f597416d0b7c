// Package glob reads patterns of paths, and finds in a tree what they match.
//
//   - A pattern is empty, for all; a path, for what is there and below; or a glob, with
//     *, ?, [a-z] and **. [Compile] makes a [Pattern] of it.
//   - [Base], [Literal] and [Inside] say what a pattern means as a path, and a path as a
//     pattern.
//
// It must not know commits, nor what becomes of the paths.
package glob
