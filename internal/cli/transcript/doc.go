// Package transcript owns a job's output: it reads what all members write,
// while they run and afterwards, and prints it with their names.
//
// A Source opens the logs of one pod; an Archive those of pods that are gone.
// A cursor is how far the output of one member has been read: the time of the
// last line and how many lines bear it. Every reading begins at the cursor, so
// that a lost connection, a restarted pod or a switch to the archive neither
// repeats a line nor loses one. Follow attends a job until it has ended; Replay
// prints what there is, merged by time.
//
// It must not know any command, nor how a job is made.
package transcript
