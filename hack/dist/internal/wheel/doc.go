// Package wheel writes a Python wheel with a program inside, by the binary
// distribution format of the Python packaging specifications: the package's files,
// the program among the scripts that an installer puts beside python, the metadata,
// and a RECORD with the hash of each file.
//
// It must not know what the program does.
package wheel
