// Command suite runs a suite of the project's tests: packages, with build tags, under a name.
//
//	go run ./hack/suite [flags] NAME PACKAGE...
//
// A light suite is one `go test`, whose results Go's own cache keeps. A heavy suite (-heavy)
// starts programs, clusters and file systems that Go's cache knows nothing about. The command
// builds its test binaries, computes a key of everything that the outcome depends on, and
// reports an earlier pass with the same key instead of running it again: see package pass for
// what is believed, and package input for what counts. CI_FULL=1 runs it anyway.
//
// The tests of a package may run in shards (-shards): processes at the same time, each with a
// part of the tests, split by the time that each test took before.
//
// Every run keeps the events of its tests as JSON below the cache folder; -times prints the
// costliest tests of all suites from there. With CI=true a skipped test is a failure. Exit
// codes: 0 passed, 1 failed or skipped in CI, 2 wrong usage.
package main
