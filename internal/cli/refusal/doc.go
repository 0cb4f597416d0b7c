// Package refusal owns how muster tells that the server did not take an
// object: one sentence for each field, saying which, what was given and what
// is allowed, in place of the server's one long line.
//
// It must not know any command, nor talk to a server.
package refusal
