// Package input finds the digests of everything that the outcome of a suite of tests depends
// on, beside its own test binaries: files of the repository, programs, the kernel, Debian's and
// Python's packages, the user and what the machine offers.
//
// A change that no input shows would be hidden by an earlier pass. So an input that cannot be
// read is an error, and whole folders count, not the files that a test reads today.
package input
