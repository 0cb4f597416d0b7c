// Package issuer makes the access keys of S3 clients for callers of the door, and keeps them
// in a vault.
//
// It must not know who may call.
package issuer
