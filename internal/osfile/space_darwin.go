package osfile

import "golang.org/x/sys/unix"

// Space returns the size of the file system that a folder is on, and how much of
// it this user may still fill, in bytes.
func Space(dir string) (total, available int64, err error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, 0, err
	}
	return int64(fs.Blocks) * int64(fs.Bsize), int64(fs.Bavail) * int64(fs.Bsize), nil
}
