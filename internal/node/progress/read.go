package progress

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"github.com/muster-dev/muster/internal/osfile"
)

// maxReport is how large a report's file may be, in bytes.
const maxReport = 64 << 10

// text is what a report's file held at one moment.
type text struct {
	data []byte
	// file and written tell one state of the file from another.
	file    os.FileInfo
	written time.Time
}

// same reports that nothing was written between two readings.
func (t text) same(o text) bool {
	return t.file != nil && o.file != nil && os.SameFile(t.file, o.file) && t.written.Equal(o.written) && string(t.data) == string(o.data)
}

// replaced reports that the later reading is of another file: the name was
// taken by one that was written elsewhere, whole.
func (t text) replaced(o text) bool {
	return t.file != nil && o.file != nil && !os.SameFile(t.file, o.file)
}

// readText reads a file below a folder that its reader does not trust. Only an
// ordinary file of a modest size is read, never one that a link leads to, and
// nothing blocks. The error is fs.ErrNotExist where there is none.
func readText(folder, name string) (text, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return text{}, err
	}
	defer func() { _ = root.Close() }()
	f, err := openReport(root, path.Clean(name))
	if errors.Is(err, osfile.ErrChanged) {
		return text{}, fs.ErrNotExist // replaced this instant: the next look sees it
	}
	if err != nil {
		return text{}, err
	}
	defer func() { _ = f.Close() }()
	now, err := f.Stat()
	if err != nil {
		return text{}, err
	}
	if now.Size() > maxReport {
		return text{}, fmt.Errorf("it has %d bytes: it may have %d at most", now.Size(), maxReport)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxReport))
	if err != nil {
		return text{}, err
	}
	after, err := f.Stat()
	if err != nil {
		return text{}, err
	}
	return text{data: data, file: after, written: changed(after)}, nil
}

// openReport opens a file below a folder. The folders between them are no links either.
func openReport(in *os.Root, name string) (*os.File, error) {
	first, rest, below := strings.Cut(name, "/")
	if !below {
		return osfile.OpenRegular(in, name)
	}
	folder, err := osfile.OpenFolder(in, first)
	if err != nil {
		return nil, err
	}
	defer func() { _ = folder.Close() }()
	return openReport(folder, rest)
}

// changed is when a file was last written: by its own word, or if that lies
// after it was last touched at all, which cannot be chosen, by that.
func changed(info os.FileInfo) time.Time {
	at := info.ModTime()
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		if touched := time.Unix(s.Ctim.Sec, s.Ctim.Nsec); touched.Before(at) {
			return touched
		}
	}
	return at
}

// How often a file that was written this instant is read again, and for how
// long it has to stay as it is.
const (
	rereads = 4
	settle  = 50 * time.Millisecond
)

// errBusy says that a file is written faster than it can be read.
var errBusy = errors.New("it is written all the time, and what was read may be a part of it: write a line that ends with a newline, or write another file and rename it")

// readReport reads a report that is whole. A file that was written this
// instant is read again until it has stayed as it was. Pause waits, and returns
// false when there is no more time for that; with a nil pause nobody writes any
// more.
func readReport(folder, name string, now time.Time, pause func(time.Duration) bool) (Report, time.Time, error) {
	t, err := readText(folder, name)
	if err != nil {
		return Report{}, time.Time{}, err
	}
	for i := 0; pause != nil && now.Sub(t.written) < 4*settle; i++ {
		if !pause(settle) {
			return Report{}, time.Time{}, errBusy
		}
		next, err := readText(folder, name)
		if err != nil {
			return Report{}, time.Time{}, err
		}
		if next.same(t) || t.replaced(next) {
			t = next
			break
		}
		t = next
		if i+1 == rereads {
			if n := len(t.data); n > 0 && t.data[n-1] != '\n' && t.data[n-1] != '}' {
				return Report{}, time.Time{}, errBusy
			}
			break
		}
	}
	r, err := Parse(t.data)
	return r, t.written, err
}
