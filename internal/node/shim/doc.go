// Package shim carries the shim's binary inside muster and puts it on disk.
//
// It owns the embedded file and its name there. What the shim does is in
// package supervise, which this package must not import: the one is linked
// into muster, the other into the shim.
package shim
