// Package fencing keeps what a scheduler wrote that has been replaced from
// doing harm, however late it arrives. No guarantee rests on a clock; docs in
// docs/design/open/003-fencing.md, proof by exhaustion in model_test.go.
//
// Vocabulary: the fence is one Lease whose count of transitions is the epoch;
// to take over is to move the epoch on, and then to adopt or give up all that
// earlier schedulers wrote; an epoch is settled once that is done, and only
// then does its scheduler plan; a stamp is the epoch of the scheduler that last
// adopted something; a Placement is void if it was written too late to be
// adopted: it never starts, and is undone; an epoch is closed once its scheduler
// has handed over in order, having every answer; closed epochs that follow one
// another are a chain, whose Placements are valid without a stamp.
//
// The order of two reads carries every proof. Whoever saw a Placement of the
// present epoch, and reads the fence after that, knows that it existed before
// any later scheduler listed: it will be adopted. Whoever reads the fence, and
// after that a Placement older than what was settled, knows that it was not
// adopted: it never will be.
//
// rule.go is pure, and shared with the model; the rest reads and writes the
// Lease. The package knows nothing of plans, of members, or of how pods run.
package fencing
