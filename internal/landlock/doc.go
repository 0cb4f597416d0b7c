// Package landlock takes rights to files and to the network from the calling process, for
// good, by the Landlock module of the Linux kernel.
//
// Vocabulary: a rule names an open file or folder and the access that the process keeps
// below it. The kernel denies all other access, also to the files of the process's user.
// Files that are open already stay usable.
//
// It must not know which process calls it, nor why.
package landlock
