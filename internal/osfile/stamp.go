package osfile

// Stamp is the state of a file as its file system tells it. Every write, and
// every change of size, times or mode, changes Ctime, and no program can set it
// back. Times are in nanoseconds since 1970.
type Stamp struct {
	Device, Inode      uint64
	Size, Mtime, Ctime int64
}
