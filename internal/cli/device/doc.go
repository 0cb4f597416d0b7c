// Package device owns what the command line knows of GPUs: what a node tells
// of its own, which pod holds which, and which are held and gone.
//
// It must not know any command, nor how GPUs are found on a machine.
package device
