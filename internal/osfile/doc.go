// Package osfile holds the operations on files that each operating system does in
// its own way: locks, the identity of a file, the space on a disk, and writes that
// survive a loss of power.
//
// It also opens files and folders where another process may write meanwhile, such as a program of a
// user: osfile follows no symbolic link there, and does not wait for a pipe.
//
// Muster itself runs on Linux. The command line alone also runs on macOS and
// Windows, and these are the operations that it needs there.
//
// It must not know whose files they are.
package osfile
