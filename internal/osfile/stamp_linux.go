package osfile

import (
	"io/fs"
	"syscall"
)

// StampOf returns the stamp of a file that [os.Stat] or [os.File.Stat] looked at.
// The zero stamp equals no file's.
func StampOf(info fs.FileInfo) Stamp {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return Stamp{}
	}
	return Stamp{Device: st.Dev, Inode: st.Ino, Size: st.Size, Mtime: st.Mtim.Nano(), Ctime: st.Ctim.Nano()}
}

// HasOtherNames reports whether a file that [os.Lstat] or [os.File.Stat] looked at has more than
// one name (hard link).
func HasOtherNames(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Nlink > 1
}
