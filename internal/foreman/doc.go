// Package foreman gives out the datums of stages to workers, and collects what
// they make of them.
//
// Vocabulary: a work is what one stage of one run has to compute, its datums. A
// datum waits, is prepared (its files are written into its folder, ahead of who
// computes it), is with a worker for as long as that one says so, is computed,
// and is recorded: durable as a result. The stock are the datums that are
// prepared and with nobody. The ledger is all of that as plain data.
//
// A work of one datum may be lent: the members of a job compute it together. Each
// gets all of its files and brings a part, what it wrote; parts are united, path by
// path, once whoever lent it says that the job has succeeded. Of a member the part of
// its newest pod counts. Where one of them leads, the others follow: they go on until it
// is done, and the leader's part is taken once all of theirs have come. All are of one
// attempt of the job, and one that is lost has all begin anew.
//
// What a worker has finished is in the datum's folder before anybody is told, so
// a foreman that is started anew finds it there and has nothing computed twice.
//
// It must not know Kubernetes, what a pipeline is, where files come from or how
// results are kept: those are functions of whoever opens the work.
package foreman
