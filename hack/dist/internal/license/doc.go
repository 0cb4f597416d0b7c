// Package license lists the modules that are linked into programs, with the licence
// of each and its text, as most licences ask of whoever passes a program on.
//
// Vocabulary: a notice is a file of a module that holds a licence or a notice; it
// counts where it lies beside a linked package or in a folder above it.
//
// It must not know which programs they are.
package license
