// Package event reads the events that `go test -json` and test2json write, one JSON object
// a line, and adds them up: which tests passed, failed or were skipped, and how long each
// took. It runs nothing.
package event
