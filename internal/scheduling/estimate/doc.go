// Package estimate says how long work will run, as a distribution.
//
// Vocabulary: evidence is what is known of a piece of work before it ends; a
// book is what was learned from work that has ended; an estimate is the
// distribution of the whole run time that follows from both.
//
// Run times are counted in buckets, each longer than the one before by the
// square root of two. What owners declare is not believed but calibrated: the
// book counts the ratio of the true run time to the declared one, for each
// group of work and for all of it, so that an owner who always says "ten
// hours" for ten minutes is read as saying ten minutes, and for each size of
// declaration, for short ones are overrun and long ones are not. Without one
// the book falls back on the run times of like work, the most specific group
// first (its own counts, with the next wider group as the prior), as QSSF
// does with user and name ("Characterization and prediction of deep learning
// workloads", SC '21); without any, on a wide guess.
//
// The package knows no gang, queue or node. It is pure, and its arithmetic is
// done in one fixed order: equal books give equal estimates, bit for bit.
package estimate
