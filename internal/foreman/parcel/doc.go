// Package parcel is the files of a datum on their way between the foreman and a
// worker that does not share its folder.
//
// Vocabulary: a parcel is a tar stream of what lies in the datum's folder: files,
// folders and symbolic links below a few names that are agreed, and at its end an
// empty file that says that it is whole. A refusal is a parcel that would be
// refused again; any other error is a stream that broke, or a disk.
//
// It must not know who sends parcels, nor by what way.
package parcel
