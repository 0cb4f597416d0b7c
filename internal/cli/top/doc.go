// Package top is the command `muster top`: nodes, their GPUs, how busy they
// are and who holds them, other people's processes included.
//
// Build (report.go) makes the report from what was read and is pure.
package top
