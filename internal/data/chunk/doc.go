// Package chunk owns where files are cut, and what a file of several chunks is: a
// list of them.
//
// Vocabulary: a chunk is a run of a file's bytes, cut where its content says so,
// so that an insertion moves no cut but those beside it; a [Piece] is a chunk with
// its name and place; a list is the pieces of one file in order. It must not know
// where files come from.
package chunk
