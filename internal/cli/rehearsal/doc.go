// Package rehearsal gives the tests of verbs, and of the rules of kinds, a real
// API server to talk to, each its own: that of the built program (planetest).
// All of it is built with -tags embedded alone.
//
// It must not know any verb.
package rehearsal
