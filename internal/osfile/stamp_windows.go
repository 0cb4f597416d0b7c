package osfile

import "io/fs"

// StampOf returns the zero stamp, which equals no file's: a file that Windows
// looked at by its name tells neither its identity nor the time of its last
// change of any kind. Callers read such a file again.
func StampOf(fs.FileInfo) Stamp { return Stamp{} }

// HasOtherNames returns false: Windows does not tell how many names a file has that it looked at
// by its name.
func HasOtherNames(fs.FileInfo) bool { return false }
