// Package objectcache reads the objects that pods are made of: config maps, secrets,
// claims with their volumes, and tokens of service accounts.
//
// A [Cache] answers from the caches of informers, and asks the API server for what they
// do not show yet.
//
// It must not know volumes on disk, nor when a pod starts.
package objectcache
