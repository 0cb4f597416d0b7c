// Package tutorial reads a tutorial of docs/tutorials and takes all of its steps, in
// one shell.
//
// A tutorial is a Markdown page made of steps, in the order of the page:
//
//   - A fenced block after a line that ends with "`NAME`:" is a file. The step
//     writes it to NAME, below the folder in which the reader works.
//   - A fenced block of the language console is commands and their output. A line
//     that begins with "$ " is a command, "> " continues it, and the lines up to
//     the next command are the expected output.
//
// In the expected output "..." stands for any text within a line, and a line "..."
// for any number of lines, also none. Runs of spaces count as one, so that the
// width of a table's columns does not matter. Every other block is only read.
//
// It must not know Muster.
package tutorial
