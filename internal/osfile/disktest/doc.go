// Package disktest mounts small disks, for tests of code that runs out of space.
//
// A small disk is a tmpfs: it has as many bytes and inodes as a test wants.
//
// The package must not know the meaning of the files.
package disktest
