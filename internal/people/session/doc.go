// Package session keeps who is signed in to the HTTP server for people.
//
// A link is a secret that its caller exchanges once, within a minute, for a session. A session
// belongs to one browser: it has a cookie, which the browser sends, and a key, which pages of the
// session's own origin keep and send in a header. A token belongs to a program: it has a name, an
// expiry and scopes. The table holds sessions and tokens; it holds hashes of their secrets only, and
// survives a restart through a [Store]. Links are held in memory: a restart ends them.
//
// A session may have a credential for another server, such as tokens of OpenID Connect. Its current part
// is in memory only. Its renewal is stored, encrypted with a key that is derived from the cookie, which
// the table does not hold: a copy of the store opens nothing.
//
// A secret has the form KIND.ID.RANDOM. The ID is public: lists show it, and a user revokes by it.
//
// It must not know HTTP, Kubernetes, or what a scope or an origin means.
package session
