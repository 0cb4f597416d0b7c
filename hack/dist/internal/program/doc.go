// Package program builds muster for one target: a system, an architecture, and
// whether NVIDIA's library is read.
//
// Programs for Linux carry a shim and a worker of their own architecture. The
// repository has a place for those of this machine alone, so an overlay of the go
// command puts others there. What is linked with NVML needs C: zig compiles it
// against a glibc of a given version, whatever the machine has.
//
// It must not know what a program is packed into.
package program
