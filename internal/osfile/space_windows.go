package osfile

import "golang.org/x/sys/windows"

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
