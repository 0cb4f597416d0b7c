// Command data measures versioned storage beside what a file system does with the
// same bytes: make bench-data. Each figure is of a process that was started for it,
// to a commit that is durable; the median of several runs, which take turns with
// what they are compared with. Begin some minutes after many files were removed: until
// then, others may be slow to make where the file system has no journal.
//
// It must not know the inside of internal/data. What other programs are compared
// with is in peers.go; hack/bench-peers installs them.
package main
