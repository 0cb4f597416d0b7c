// Package whole writes the files that commands make for their users: such a file has its
// name only once all of it is there, and is left out where that fails.
package whole
