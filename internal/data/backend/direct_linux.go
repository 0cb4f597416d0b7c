package backend

import (
	"os"
	"syscall"
)

// direct opens a file past the page cache.
const direct = syscall.O_DIRECT

// writeOut is SYNC_FILE_RANGE_WRITE of sync_file_range(2): the disk begins, and no
// caller waits for it.
const writeOut = 2

// beginWriting starts the transfer of a part of a file to the disk. It is no more
// than a hint, which not every file system takes.
func beginWriting(file *os.File, from, size int64) {
	_ = syscall.SyncFileRange(int(file.Fd()), from, size, writeOut)
}
