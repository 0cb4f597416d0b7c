// Package simulate replays a trace of jobs in virtual time under a [Policy]
// and measures what became of them.
//
// A [Job] arrives, waits, is started on some nodes, may be preempted, and ends
// when it has run as long as the trace says. [Replay] is the loop: it owns the
// clock and the books of who holds what, tells the policy of every event,
// asks it once per instant, and checks every decision against its own books.
// [Measure] turns an [Outcome] into figures, always by size class too, because
// an average alone rewards starving large gangs. [Run] does both, and measures
// fairness between the queues.
//
// An instant is one moment of virtual time. What happens in it is told in the
// order ends, wakes, arrivals, and by job among equals; then the policy is
// asked. A preempted job comes back in the same instant, after which the policy
// is asked again, unless the decision that preempts it also starts it: that is
// a move, and nothing arrives. A job is not preempted in the instant in which
// it started, so an instant has an end. How long a job ran is counted without
// restarts: what remains of its run after a preemption is its Run less what it
// ran, and before that the restart cost, which is lost.
//
// The baselines (fifo, greedy, easy, sjf-oracle, las) are honest: they keep
// indexes so that they are fast, never to be let off work. [NewPolicy] makes a
// policy by name.
//
// Time is a whole number of microseconds, no map is iterated and every random
// number comes from a seed, so that the same input gives the same bytes.
//
// It must not know Kubernetes, a wall clock, a file format or the command line.
package simulate
