// Package progress finds out how far a pod is and when its work was last saved,
// from files alone.
//
// Vocabulary: a report is what a program says itself, in the one line of a file
// (report.go, read.go). A save is a moment at which everything in the folder of
// checkpoints was completely written, as far as that can be told from outside:
// the newest of its files (folder.go) that are no logs and not temporary, once
// they have been left alone for a while and no process of the pod has any of
// them open for writing (writers.go). An observer puts the two together, from
// one look to the next (observer.go).
//
// Nothing here trusts what it reads: files of any size, kind and content, links
// out of their place and folders of any number of files cost a bounded amount
// of work a look, and end in words and not in an error that anybody has to
// handle.
//
// The package must not know what a pod or a job is, nor what is done with what
// it finds.
package progress
