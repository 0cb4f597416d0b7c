// Package powertest is a file system that loses its power, for tests of code that
// writes durably. The code under test makes its real system calls; the kernel
// passes them to this package by FUSE.
//
// A change is a system call that changes something. What was not synced when the
// power is cut may be lost: of a file everything since its last fsync, of a folder
// every name that was added, replaced or removed since its last fsync.
//
// It must not know what is stored.
package powertest
