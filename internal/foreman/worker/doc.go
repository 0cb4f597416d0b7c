// Package worker is a member of the job that computes a stage: it takes datums
// from the foreman, runs the stage's program for each, and says what became of
// them.
//
// It is also what starts a member of a job that computes a datum together with others:
// it gets the files, runs the member's program, and brings what that wrote.
//
// A foreman that does not answer is waited for: Muster may be started again at
// any time, and what runs goes on meanwhile. A work whose token is gone is over.
//
// It must not know what a pipeline is, nor where the files of a datum come from.
package worker
