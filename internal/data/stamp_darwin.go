package data

import (
	"io/fs"
	"syscall"
)

func stampOfInfo(info fs.FileInfo) stamp {
	st := info.Sys().(*syscall.Stat_t)
	return stamp{size: st.Size, mtime: st.Mtimespec.Nano(), ctime: st.Ctimespec.Nano(), ino: st.Ino, dev: uint64(uint32(st.Dev)), mode: uint32(st.Mode)}
}
