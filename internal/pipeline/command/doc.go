// Package command returns the commands of a stage, as package programs looks for their files.
//
// The package must not know the machine's files.
package command
