// Package bundle carries a Python environment from the node on which it was
// built to those on which it is used: as one tar.
//
// Vocabulary:
//
//   - A note is what the build says of what it made, in a file that it writes
//     last: a folder without one is not finished.
//   - To pack is to make a tar of the folder; what is packed is known by its
//     hash and its size. To unpack is to lay it out again, at another time on
//     another machine, at the same path within containers.
//
// Who built the environment need not be trusted: nothing is read or written
// outside the folder, whatever its links say, and nothing but folders, files and
// links is taken. Files keep their times, by which Python knows that what it
// compiled is not stale, and lose all other rights than to be read and executed:
// whoever runs in the container may use it.
//
// It knows neither Kubernetes nor jobs, nor where bundles are kept.
package bundle
