// Package objectcache reads the objects that pods refer to: config maps, secrets, claims
// with their volumes, and tokens of service accounts.
//
// A [Cache] reads from informers. It reads an object from the API server if the informers
// do not have it yet.
//
// The package must not know volumes on disk, nor the start of pods.
package objectcache
