// Package glob owns the text by which an input is cut into datums.
//
// Vocabulary:
//
//   - A [Pattern] matches the paths that are datums: "/*" each entry of the top
//     folder, "/" everything at once.
//   - A group is a part of a pattern in parentheses. Its value is the part of the
//     path that it matches.
//   - A [Template] is the text of joinOn and groupBy: $1 stands for the value of
//     the first group.
//
// It must not know trees, stages, nor how datums are combined.
package glob
