// Package simulate is the command `muster simulate`: it replays a trace of
// jobs in virtual time, or packs a trace of pods, under one or more policies,
// and prints what became of them as a table, CSV or JSON.
//
// simulate.go is the command line, replay.go what is done with jobs that come
// and go, pack.go with pods that come and stay, and document.go, table.go and
// csv.go what is printed.
//
// It must not know how any policy decides.
package simulate
