// Package statuswriter writes the status of one pod to the API server.
//
// A [Writer] keeps only the newest status, and tries again until the API server takes it.
//
// It must not know what a status says.
package statuswriter
