// Package pass remembers that a suite of tests passed with certain inputs, so that the next run
// with the same inputs can report that pass instead of running the suite again.
//
// Vocabulary: an input is a name and a digest of something that the suite's outcome depends
// on, such as a test binary or the kernel's version; the key of a suite is a digest of all its
// inputs; a record is a pass of a suite with a key. A record expires after a week. A pass is not
// recorded within a week after a failure with the same key: a test that passes only sometimes
// must run each time.
//
// A record is believed, so its folder must belong to this user, and nobody else may write to
// it: [Open] checks that. The package does not know how inputs are found or suites run.
package pass
