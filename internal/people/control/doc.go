// Package control is the HTTP API by which muster's commands ask the server for people for links,
// sessions and tokens, and its client.
//
// It is served at a Unix socket: the kernel tells which user connects (package peer). A user gets and
// ends their own sessions and tokens only; an administrator lists and ends those of all users.
//
// It must not know Kubernetes, pages, or how a session is checked.
package control
