package data

import (
	"io/fs"
	"math"
	"syscall"
)

// stampOfInfo makes a stamp that is never trusted later: Windows tells no time of the
// last change of any kind, so its change time lies in the future. Every put reads
// the files again.
func stampOfInfo(info fs.FileInfo) stamp {
	s := stamp{size: info.Size(), mtime: info.ModTime().UnixNano(), ctime: math.MaxInt64, mode: uint32(info.Mode().Perm())}
	if info.Mode().IsRegular() {
		s.mode |= syscall.S_IFREG
	}
	return s
}
