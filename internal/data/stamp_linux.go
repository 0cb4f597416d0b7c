package data

import (
	"io/fs"
	"syscall"
)

func stampOfInfo(info fs.FileInfo) stamp {
	st := info.Sys().(*syscall.Stat_t)
	return stamp{size: st.Size, mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano(), ino: st.Ino, dev: st.Dev, mode: st.Mode}
}
