package osfile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Space returns the size of the file system that a folder is on, and how much of
// it this user may still fill, in bytes.
func Space(dir string) (total, available int64, err error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, 0, err
	}
	return int64(fs.Blocks) * fs.Bsize, int64(fs.Bavail) * fs.Bsize, nil
}

// Inodes returns the number of inodes of the file system that a folder is on, and how many of
// them are free. The total is 0 where the file system makes them as they are needed.
func Inodes(dir string) (total, free int64, err error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, 0, err
	}
	return int64(fs.Files), int64(fs.Ffree), nil
}

// Allocate reserves so many bytes for a file on the disk.
func Allocate(file *os.File, size int64) error {
	err := unix.Fallocate(int(file.Fd()), 0, 0, size)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return fillFile(file, size)
	}
	return err
}
