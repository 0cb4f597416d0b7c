// Package opening opens what the verbs of `muster data` work on: the store of
// data and the datasets of the Muster that is meant.
//
// The bytes are in a folder of an embedded Muster's home, which the command
// opens itself, as muster run does with code. On a cluster they come and go by
// the manager's door, which has one store for each namespace.
//
// It must not know any verb.
package opening
