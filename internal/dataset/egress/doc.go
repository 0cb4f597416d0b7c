// Package egress owns how a commit is copied out of the store, to a bucket that
// speaks S3: which of its files, where to, and as whom.
//
// Vocabulary: an address is s3://BUCKET/PREFIX; a target is an address with the
// service and the keys that a Secret says. A guard says which addresses may be
// connected to, where whoever wrote the Secret may not be trusted with the network.
//
// It must not know who asks for a copy, when it is tried again, nor where what came
// of it is noted.
package egress
