// Package powertest is a file system that loses its power, for tests of code that
// writes durably. The code under test makes its real system calls; the kernel
// passes them to this package by FUSE.
//
// A change is a system call that changes something. A cut of the power may lose
// changes that were not synced: of a file everything since its last fsync, of a folder
// every name that was added, replaced or removed since its last fsync.
//
// The package must not know the meaning of the files.
package powertest
