// Package owner owns the rule which Unix user a namespace belongs to, on a machine that
// several users share.
//
// # Vocabulary
//
// The namespace of a user is u-<uid>, with the uid in decimal and without leading zeros,
// so that a user has one namespace and a namespace has one user. Every other namespace
// belongs to no user: it is that of Muster's own parts, or of an administrator.
//
// Two numbers are no user: 65534 stands for every uid that has no number in a user
// namespace (the overflow uid), and 4294967295 is -1, which setuid(2) takes as "leave it".
//
// # What it must not know
//
// Whether the machine has such a user, and the rights of a user. It is pure.
package owner
