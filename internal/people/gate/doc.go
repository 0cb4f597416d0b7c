// Package gate stands in front of every handler of the HTTP server for people.
//
// A site is one origin: the console, or one program of a user. It has routes. A gate serves a request
// only by a route, and only after all checks of that route: before a handler runs, before a body is
// read, and before a connection is upgraded. What a route does not allow is refused: hosts, methods,
// upgrades, origins, content types, sizes. A caller is known by the cookie and key of a session, or by
// a token (package session).
//
// A program is a server of a user behind a reverse proxy. The gate makes that proxy itself, since it
// has to filter what passes: no secret of Muster reaches a program, and no program sets a cookie of
// Muster.
//
// It must not know Kubernetes, what routes do, or which rights a caller has behind a route.
package gate
