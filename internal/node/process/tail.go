package process

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/muster-dev/muster/internal/node/shim/contract"
)

// seekTail finds where the last lines of a log begin. A line that is not
// complete yet counts as one.
func seekTail(dir string, numbers []int, lines int) (number int, offset int64, err error) {
	newest := true
	for i := len(numbers) - 1; i >= 0; i-- {
		f, err := os.Open(filepath.Join(dir, contract.LogName(numbers[i])))
		if errors.Is(err, fs.ErrNotExist) {
			break // rotated away, with all older ones
		}
		if err != nil {
			return 0, 0, err
		}
		var found bool
		offset, lines, found, err = seekLines(f, lines, newest)
		_ = f.Close()
		if err != nil || found {
			return numbers[i], offset, err
		}
		newest = newest && offset < 0
		number = numbers[i]
	}
	return number, 0, nil
}

// seekLines looks for the beginning of a file's last lines. Where the file has
// fewer, it answers how many more there must be. At the end of the newest file
// a partial entry begins a line of its own. The offset is -1 where the file
// holds no entries.
func seekLines(f *os.File, lines int, newest bool) (offset int64, missing int, found bool, err error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, 0, false, err
	}
	for window := int64(64 << 10); ; window *= 4 {
		start := max(0, size-window)
		data := make([]byte, size-start)
		n, err := f.ReadAt(data, start)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, 0, false, err
		}
		offset, missing, found = countLines(data[:n], start, lines, newest)
		if found || start == 0 {
			return offset, missing, found, nil
		}
	}
}

// countLines is seekLines within the part of a file that begins at base.
func countLines(data []byte, base int64, lines int, newest bool) (offset int64, missing int, found bool) {
	end := bytes.LastIndexByte(data, '\n') + 1
	offset = -1
	for end > 0 {
		begin := bytes.LastIndexByte(data[:end-1], '\n') + 1
		if begin == 0 && base > 0 {
			break // cut off at its beginning
		}
		if e, ok := contract.ParseEntry(data[begin : end-1]); ok {
			// A line ends here, or has no end yet.
			if !e.Partial || newest && offset < 0 {
				if lines == 0 {
					return base + int64(end), 0, true
				}
				lines--
			}
			offset = base + int64(begin)
		}
		end = begin
	}
	return offset, lines, false
}
