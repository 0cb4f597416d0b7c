// Package signin signs people in at a provider of OpenID Connect: the authorization code flow with PKCE.
//
// A sign-in begins in one browser and ends there: its state, nonce and verifier are in a cookie that only
// this process can read, so callers without a session use up no memory. Each state counts once. The
// provider sends the browser to one address, which the configuration gives and no request changes.
//
// A token is an ID token that was verified: signature, issuer, audience, expiry, nonce. [Keeper] keeps the
// token of each session, and renews it before it expires. If the provider refuses that, the session ends.
//
// It must not know Kubernetes, pages, or what a user may do.
package signin
