// Package opening opens what the verbs of `muster data` work on: the store of
// data and the datasets of the Muster that is meant.
//
// The bytes are in a folder of an embedded Muster's home, which the command
// opens itself, as muster run does with code. On a cluster there is no such
// folder: the verbs are refused there.
//
// It must not know any verb.
package opening
