// Package authority makes the certificates that the S3 gateway of a cluster shows.
//
// Vocabulary: the authority is a certificate that signs others, in a Secret of the
// manager's namespace, made once and shared by all replicas. What it signs is a replica's
// own: its key is in memory alone, and it is replaced long before it ends. The bundle is
// the authority's certificate without its key: what S3 clients are told to trust
// (AWS_CA_BUNDLE). It is good for years, since clients keep it in files.
//
// A certificate may be given instead, by whom users trust anyway: then this package reads
// it, and who signs it anew replaces it in its Secret.
//
// It must not know S3, nor what is served.
package authority
