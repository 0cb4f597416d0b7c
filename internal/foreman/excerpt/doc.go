// Package excerpt bounds the logs of programs that results keep.
//
// Vocabulary: an excerpt of a log is the whole log, or, of a log of more than [Most] bytes, its
// beginning, a line that names the number of bytes between, and its end. An ending is the last
// lines of a log, in one line, for messages.
//
// A log is hostile: a program of a tenant wrote it. The package must not know datums, workers or
// stores.
package excerpt
