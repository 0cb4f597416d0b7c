// Package facts owns the facts about a datum that its program gets: its ID, and for each input
// commit, path and the value of a join or a group.
//
// Facts other than commits follow from the key of the datum's result, so that a result which
// a later run takes is one that the later run would have computed. Commits do not count.
//
// The package must not know the variables with the facts: package worker names them.
package facts
