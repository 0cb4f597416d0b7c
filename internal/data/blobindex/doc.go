// Package blobindex finds the places of stored blobs, so that writers do not store them
// twice.
//
//   - [Indices] are the indices of the newest packs, for all sessions of one lease.
//   - [Known] looks blobs up for one session, and skips condemned packs.
//   - A [Cache] keeps indices of packs in memory.
//
// The package must not know sessions or leases, nor the reasons for condemning packs.
package blobindex
