package progress

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// maxOpen is how many open files are looked at in one look, of all processes
// together.
const maxOpen = 4096

// writing lists which of the files have a process that holds them open for
// writing. It is false where it cannot tell: more files are open than one look
// may cost.
func writing(pids []int, files map[inode]file) (open []inode, sure bool) {
	left := maxOpen
	for _, pid := range pids {
		folder := "/proc/" + strconv.Itoa(pid)
		dir, err := os.Open(folder + "/fd")
		if err != nil {
			continue // it has ended, or is somebody else's
		}
		names, _ := dir.Readdirnames(left)
		_ = dir.Close()
		for _, name := range names {
			var s syscall.Stat_t
			if syscall.Stat(folder+"/fd/"+name, &s) != nil || s.Mode&syscall.S_IFMT != syscall.S_IFREG {
				continue
			}
			at := inode{s.Dev, s.Ino}
			if _, ours := files[at]; ours && forWriting(folder+"/fdinfo/"+name) {
				open = append(open, at)
			}
		}
		if left -= len(names); left <= 0 {
			return open, false
		}
	}
	return open, true
}

// forWriting reads from /proc whether a file is open for writing and not for
// appending alone, as logs are.
func forWriting(path string) bool {
	data, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	for line := range bytes.Lines(data) {
		value, found := bytes.CutPrefix(line, []byte("flags:"))
		if !found {
			continue
		}
		flags, err := strconv.ParseUint(string(bytes.TrimSpace(value)), 8, 64)
		return err == nil && flags&syscall.O_ACCMODE != syscall.O_RDONLY && flags&syscall.O_APPEND == 0
	}
	return false
}
