// Package statuswriter writes the status of one pod to the API server.
//
// A [Writer] keeps only the newest status, and retries until the API server accepts it.
//
// The package must not know the content of a status.
package statuswriter
