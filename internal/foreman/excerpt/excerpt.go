package excerpt

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
)

const (
	// Most is the largest size of an excerpt, in bytes, without the line in its middle.
	Most = 16 << 20
	// parts is the number of parts of an excerpt, one of which is its beginning.
	parts = 16
	// first is the size of the beginning of the largest excerpt.
	first = Most / parts
)

// gap is the line between the beginning and the end of an excerpt.
func gap(bytes, most int64) string {
	return fmt.Sprintf("\n[muster left out %d bytes of this log here: it is kept with at most %d]\n", bytes, most)
}

// Of returns the excerpt, of at most most bytes, of a log that has size bytes, and the length of the
// excerpt.
func Of(log io.ReaderAt, size, most int64) (io.Reader, int64) {
	if size <= most {
		return io.NewSectionReader(log, 0, size), size
	}
	line, begin := gap(size-most, most), most/parts
	end := io.NewSectionReader(log, size-(most-begin), most-begin)
	return io.MultiReader(io.NewSectionReader(log, 0, begin), strings.NewReader(line), end), most + int64(len(line))
}

// Log is a log that is being written. It keeps its excerpt in a file without a name, which no
// other process can open. Its methods may be called concurrently.
type Log struct {
	mu   sync.Mutex
	file *os.File
	size int64
}

// New returns an empty log whose file is on the disk of a folder.
func New(folder string) (*Log, error) {
	file, err := os.CreateTemp(folder, ".log-")
	if err != nil {
		return nil, fmt.Errorf("making a file for a log: %w", err)
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, fmt.Errorf("making a file for a log: %w", errors.Join(err, file.Close()))
	}
	return &Log{file: file}, nil
}

// Write implements [io.Writer]. Bytes beyond the beginning overwrite the oldest ones of the end.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for left := p; len(left) > 0; {
		at := place(l.size)
		n, err := l.file.WriteAt(left[:min(int64(len(left)), Most-at)], at)
		l.size += int64(n)
		left = left[n:]
		if err != nil {
			return len(p) - len(left), fmt.Errorf("writing a log: %w", err)
		}
	}
	return len(p), nil
}

// place returns the offset in the file of the byte at an offset of the log.
func place(at int64) int64 {
	if at < first {
		return at
	}
	return first + (at-first)%(Most-first)
}

// Read returns the excerpt and its length. The log must not be written until it is read.
func (l *Log) Read() (io.Reader, int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Of(ring{l.file}, l.size, Most)
}

// Ending returns the [Ending] of the log.
func (l *Log) Ending(name string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Ending(ring{l.file}, l.size, name)
}

// Close removes the log.
func (l *Log) Close() error { return l.file.Close() }

// ring reads a log by its own offsets from the file of a [Log].
type ring struct{ file *os.File }

// ReadAt implements [io.ReaderAt].
func (r ring) ReadAt(p []byte, at int64) (n int, err error) {
	for n < len(p) && err == nil {
		from := place(at + int64(n))
		till := int64(Most)
		if from < first {
			till = first
		}
		var got int
		got, err = r.file.ReadAt(p[n:min(int64(len(p)), int64(n)+till-from)], from)
		n += got
	}
	return n, err
}
