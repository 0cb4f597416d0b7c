// Package buckettest owns a service that speaks S3, for tests of what is kept in buckets:
// versitygw, as it comes, on a folder. It is a process of its own, for it moves its process
// to its folder.
//
// It must not know what is tested.
package buckettest
