// Package shim carries the shim's binary inside muster and puts it on disk, and
// that of workers of pipelines with it: programs that run where muster does not.
//
// It owns the embedded files and their names there. What the shim does is in
// package supervise, which this package must not import: the one is linked
// into muster, the other into the shim.
package shim
