package data

import (
	"io/fs"
	"math"
	"os"
	"syscall"
)

// fromInfo makes a stamp that is never trusted later: Windows tells no time of the
// last change of any kind, so its change time lies in the future. Every put reads
// the files again.
func fromInfo(info fs.FileInfo) stamp {
	s := stamp{size: info.Size(), mtime: info.ModTime().UnixNano(), ctime: math.MaxInt64, mode: uint32(info.Mode().Perm())}
	if info.Mode().IsRegular() {
		s.mode |= syscall.S_IFREG
	}
	return s
}

func stampOf(file *os.File) (stamp, error) {
	info, err := file.Stat()
	if err != nil {
		return stamp{}, err
	}
	return fromInfo(info), nil
}

// stampOfPath is the stamp of what has this name, a link itself.
func stampOfPath(path string) (stamp, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return stamp{}, err
	}
	return fromInfo(info), nil
}
