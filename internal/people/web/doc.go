// Package web is the HTTP server for people: the console, and programs of users behind it.
//
// Every request goes through a gate (package gate). The console is served at each of its origins:
// http://localhost:PORT, other local ports to which a tunnel leads, and the address of a reverse proxy.
// It has one page, whose files are in the program, and answers for it.
//
// A [Passage] returns a way to the Kubernetes API with the credential of a caller. All answers are read
// by that way, so they are within the caller's rights; the server has no credential of its own.
//
// It must not know Kubernetes, nor what an answer says.
package web
