// Package run is the command `muster run`: from flags and a folder to a
// TrainingJob, attached to it until it ends.
//
// Build (spec.go, parse.go) makes the TrainingJob and is pure; prepare.go
// reads what it needs from this machine and stores the code; attend.go shows
// how the job goes and ends as its script does.
package run
