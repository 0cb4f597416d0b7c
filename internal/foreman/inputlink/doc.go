// Package inputlink replaces links in the output of a datum that lead to its inputs by their
// targets: programs link instead of copying.
//
// Vocabulary: an input path is the path of a file or folder below the folder of the inputs, such as
// images/7.png. A link is settled once the file that it led to is in its place, as another name of
// the same file (hard link), so that no bytes are copied; a folder is created with such files.
// Where the output travels as a parcel, the link travels in its plain form, and the receiver, which
// has the inputs, settles it.
//
// Outputs and inputs are hostile: programs may change both meanwhile. The package never leaves the
// folder of the datum. It must not know workers, nor the dispatch of datums.
package inputlink
