// Package programs finds the files that a stage's command runs, among the files of one
// machine, so that their contents count for results.
//
// A stage in an image has its programs in that, and a stage with code in a snapshot: both
// count already. Where the programs are the machine's own, as those of an image that stands
// for an environment of the machine, a word of the command names them.
//
// Counted are the program that starts, scripts that it is given, and programs and scripts that a
// shell's line names by an absolute path. Not counted are programs in the machine's own folders
// (/bin, /sbin and those in /usr), interpreters, and files that a program loads or reads by itself.
//
// The package must not know its callers, nor the other inputs that count for results.
package programs
