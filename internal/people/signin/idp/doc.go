// Package idp is a provider of OpenID Connect for tests: a server with TLS that signs tokens. It checks
// what real ones check: client, secret, redirect address, PKCE, and that codes and refresh tokens count once.
//
// Only tests import it.
package idp
