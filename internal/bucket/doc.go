// Package bucket owns how a bucket that speaks S3 is reached: its address, who
// asks, and what its refusals mean.
//
// Vocabulary: an endpoint is the address of the service; a key is the name of an
// object in the bucket.
//
// It must not know what is kept in a bucket, nor under which keys.
package bucket
