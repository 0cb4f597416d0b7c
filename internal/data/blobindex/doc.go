// Package blobindex finds where blobs lie that are stored already.
//
//   - [Indices] are the indices of the newest packs, for all sessions of one lease.
//   - [Known] asks them for one session, and leaves out what is condemned.
//   - A [Cache] keeps indices of packs in memory.
//
// It must not know sessions, leases, nor what is condemned and why.
package blobindex
