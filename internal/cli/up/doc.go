// Package up is the command `muster up`, and the one place that knows every
// part of an embedded Muster and in which order the parts start and stop.
//
// It owns the order, the choice of tier, what the user is told meanwhile, and
// the state file. It makes no decision of its own about pods, gangs or jobs.
package up
