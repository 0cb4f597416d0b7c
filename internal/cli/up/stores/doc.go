// Package stores keeps code, data and environments of a machine that several users share,
// by namespace.
//
// Vocabulary:
//
//   - A namespace is one of the API server. Its code is in a depot, its data in a
//     warehouse, as on a cluster. Namespaces share nothing, also not equal contents.
//   - The library is the depot as the controllers see it. It answers without blocking.
//   - A grant lets the pods of a namespace use an environment. A namespace gets it once one
//     of its jobs or runs asked for that environment: a key alone is no right.
//   - An upgrade makes the stores of a Muster of one user those of one namespace.
//
// A Muster of one user does not use this package: it has one store for all namespaces.
// The package must not know who calls.
package stores
