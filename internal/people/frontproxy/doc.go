// Package frontproxy passes requests of the users of a machine to an API server, which
// trusts it to name them (a front proxy, --requestheader-client-ca-file).
//
// # Vocabulary
//
// The identity of a user is unix:<uid>, with unix-group:<name> for each Unix group and
// the login for display. The API server adds system:authenticated. No name of a user or
// group of the machine can be one of Kubernetes, such as system:masters.
//
// Headers of the caller that name an identity are removed. Impersonate-* passes, since
// the API server judges it by the rights of the identity.
//
// # What it must not know
//
// The rights of a user, and what a request means.
package frontproxy
