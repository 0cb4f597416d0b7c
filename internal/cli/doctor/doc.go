// Package doctor is the command `muster doctor`: what this machine allows, why,
// and what is missing. Each check is a file-independent function that looks and
// says; none of them changes anything.
package doctor
