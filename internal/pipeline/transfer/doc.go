// Package transfer owns results on their way from one Muster to another: an archive of
// what the last runs of a pipeline's stages are made of, written out of one dataset of
// results and read into another.
//
// Vocabulary: an archive is a tar whose first file says what it is, and whose last one
// that it is whole; brought is what came by one.
//
// It must not know where an archive is kept, nor who asks for one.
package transfer
