// Package lineage reads from /proc who descends from whom.
//
// It owns four questions: which processes descend from one, when a process
// started (so that a number used again is not mistaken for the one before),
// what a process has used, and what it does with signals. Muster and the shim
// both ask them; the package must not know why, and it never signals anything.
package lineage
