// Package exit owns what muster's exit status means: the documented codes, and
// the error that carries one from the command that knows it to main.
//
// A command returns an ordinary error for code 1; [Usage], [NotFound] and
// [With] give it another. The table printed by `muster help exit-codes` is
// [Table], so that the documentation cannot drift from the program.
//
// It must not know any command.
package exit
