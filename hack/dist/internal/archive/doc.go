// Package archive writes the same bytes for the same files: tar.gz and zip with the
// time of the commit, without owners, in the order that is given.
//
// It must not know what the files are.
package archive
