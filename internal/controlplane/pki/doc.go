// Package pki keeps the embedded control plane's certificates and keys in one
// folder: it creates what is missing, reuses what is good, and renews what
// will soon expire or no longer fits.
//
// Vocabulary: the authority is the self-signed certificate that all others hang from,
// but for that of the front proxy, which hangs from the proxies' authority: a client of
// the first cannot act as a proxy. An identity is a certificate with its key. A
// [Signer] signs short certificates of users, whose keys it never sees.
//
// The folder is 0700 and its files 0600. Every file is replaced atomically, so
// that a crash at any point leaves either the old or the new; a certificate
// whose key does not belong to it counts as missing. The package imports the
// standard library only and knows nothing of Kubernetes but the names that the
// API server reads from a certificate's subject.
package pki
