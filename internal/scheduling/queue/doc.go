// Package queue decides whose turn it is and what a queue may take: a tree of
// queues with guaranteed amounts, limits, weights, borrowing and decayed usage.
// It knows no node, no device and no gang beyond a vector of amounts.
//
// Vocabulary:
//
//   - A class is what amounts are counted in: cpu (thousandths of a core),
//     memory (bytes), gpu (thousandths of a GPU of any model), and one class
//     for each GPU model, in thousandths. A GPU of a model counts in both.
//   - A vector holds one amount for each class, in the order of the classes.
//   - What a queue is guaranteed is its own: others may borrow it while it is
//     idle, except for what the queue does not lend, and it is given back on
//     demand. What a queue uses above that, it borrows.
//   - A queue's own jobs, where it has children too, are a child of their own
//     beside them, with what the children are not guaranteed.
//   - A charge is what a user's work in a queue holds; it counts in the queue
//     and in all queues above it.
//   - A share says how much of the cluster a queue has had above its
//     guarantee; the smallest goes first.
//   - A line is the waiting work of one pass, in the order of its turns.
//
// # Which queue an ask is charged to
//
// The root is no queue: it stands for the whole cluster. A queue named
// "default" always exists. If nobody made one, it is implied: a child of the
// root with weight 1, no guarantee and no limit, so that where nobody made any
// queue, it owns everything.
//
// # Guarantees
//
// A guarantee is counted class by class, and a class that is not named is
// guaranteed 0, with these additions. Guarantees of models add up to one of
// gpu, where that is smaller. A queue that does not name a class is guaranteed
// the sum of its children's. An ask is within the guarantee of a queue if every
// class of it is; with GPUs in the ask, the CPU and memory that come with them
// are left out where the queue names no amount of them, and for an ask without
// GPUs the queue then counts as guaranteed the same part of the cluster's CPU
// and memory as of its GPUs.
//
// # Shares
//
// The usage U of a queue or user follows what it holds, u, with a half-life h:
//
//	U(t + d) = u + (U(t) - u) * 2^(-d/h)    while u does not change
//
// an exponentially weighted mean, the continuous form of the decayed usage by
// which Slurm's multifactor priority and Kueue's admission fair sharing order
// work; h is 24 hours unless set. Because u changes only by charges, nothing
// needs to tick: any sequence of moments gives the same U. A queue's share is
//
//	max over classes of (over(u) + over(U)) / 2 / cluster capacity / weight
//	over(x) = max(0, x - guaranteed)
//
// the dominant share of what it holds and of what it held lately above its
// guarantee, in equal parts: a burst counts at once, and yesterday's does still. Queues are compared where their ways from the
// root part: first those whose next ask is within the guarantee, then the
// smaller share, then the higher priority of the next ask, then its age.
// Inside a queue: priority, then the user's share in that queue, without
// guarantee or weight, then age. The size of an ask moves no share and only
// ever takes it out of the guarantee, so asking for more of what is asked for
// anyway never brings an earlier turn.
//
// Amounts are integers. Shares are floating point, computed by one fixed
// sequence of operations that no compiler fuses, so that the same calls give
// the same bytes on every machine. Moments are integers of the caller's unit;
// a clock that goes back counts as one that stands still.
//
// A Tree and its Line are used by one goroutine at a time.
package queue
