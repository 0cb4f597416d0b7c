package data

import (
	"os"
	"syscall"
)

func fromStat(st *syscall.Stat_t) stamp {
	return stamp{size: st.Size, mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano(), ino: st.Ino, dev: st.Dev, mode: st.Mode}
}

func stampOf(file *os.File) (stamp, error) {
	info, err := file.Stat()
	if err != nil {
		return stamp{}, err
	}
	return fromStat(info.Sys().(*syscall.Stat_t)), nil
}

// stampOfPath is the stamp of what has this name, a link itself.
func stampOfPath(path string) (stamp, error) {
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); err != nil {
		return stamp{}, err
	}
	return fromStat(&st), nil
}
