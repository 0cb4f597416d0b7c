// Package warehouse owns the stores of many: one for each namespace, beside one
// another in a bucket or a folder.
//
// Vocabulary:
//
//   - A namespace is a name under which somebody keeps data; its store is below a
//     prefix of that name and shares nothing with the others, not even what is
//     equal: nobody learns from a hash what others have.
//   - The quota is how much the packs and commits of one namespace may be together, with the
//     parts of files that are still coming (uploads).
//   - An abandoned store is one whose namespace is not there any more. Since when
//     is written in it.
//
// It must not know Kubernetes, nor who asks, nor which namespaces there are.
package warehouse
