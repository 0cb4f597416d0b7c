package osfile

import (
	"os"

	"golang.org/x/sys/windows"
)

// Space returns the size of the file system that a folder is on, and how much of
// it this user may still fill, in bytes.
func Space(dir string) (total, available int64, err error) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, 0, err
	}
	var mine, all uint64
	if err := windows.GetDiskFreeSpaceEx(name, &mine, &all, nil); err != nil {
		return 0, 0, err
	}
	return int64(all), int64(mine), nil
}

// Inodes returns 0: file systems of Windows make inodes as they are needed.
func Inodes(string) (total, free int64, err error) { return 0, 0, nil }

// Allocate reserves so many bytes for a file on the disk.
func Allocate(file *os.File, size int64) error { return fillFile(file, size) }
