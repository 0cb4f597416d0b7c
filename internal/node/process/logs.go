package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/muster-dev/muster/internal/node/shim/contract"
)

// LogQuery says which part of a container's output is read, and how.
type LogQuery struct {
	// Follow goes on with new output.
	Follow bool
	// Since leaves out what is older. Zero: nothing.
	Since time.Time
	// Tail is how many of the last lines to begin with. Negative: all.
	Tail int
	// LimitBytes ends the reading after so many bytes. 0: no limit.
	LimitBytes int64
	// Timestamps puts the time before each line.
	Timestamps bool
}

// Logs reads the container's output. Without Follow the reader ends where the
// output ends now; with it, when the container ends or ctx does.
func (p *Process) Logs(ctx context.Context, q LogQuery) (io.ReadCloser, error) {
	entries, err := p.entries(ctx, q.Follow, q.Tail)
	if err != nil {
		return nil, fmt.Errorf("reading the logs of container %s: %w", p.spec.ID, err)
	}
	return &logReader{entries: entries, query: q, midLine: map[contract.Stream]bool{}}, nil
}

// OpenLogs reads the logs in a folder that LogDir named, or in a copy of one.
// Follow is ignored: nobody writes there any more.
func OpenLogs(dir string, q LogQuery) (io.ReadCloser, error) {
	entries, err := openEntries(dir, q.Tail)
	if err != nil {
		return nil, fmt.Errorf("reading the logs in %s: %w", dir, err)
	}
	return &logReader{entries: entries, query: q, midLine: map[contract.Stream]bool{}}, nil
}

// entries opens the container's log, following it where asked to.
func (p *Process) entries(ctx context.Context, follow bool, tail int) (*entryReader, error) {
	var l *link
	if follow {
		var err error
		l, err = p.dial(ctx)
		switch {
		case errors.Is(err, ErrEnded):
			l = nil // all of the output is there
		case err != nil:
			return nil, err
		default:
			if l.send(contract.Request{Op: contract.OpWatch}) != nil {
				l.close()
				l = nil
			}
		}
	}
	r, err := openEntries(p.LogDir(), tail)
	if err != nil {
		if l != nil {
			l.close()
		}
		return nil, err
	}
	if l != nil {
		r.watch(ctx, l)
	}
	return r, nil
}

// logReader turns entries back into output.
type logReader struct {
	entries *entryReader
	query   LogQuery
	midLine map[contract.Stream]bool
	buf     []byte
	rest    []byte // of buf
	sent    int64
}

// Read implements io.Reader.
func (r *logReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(r.rest) == 0 {
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
	if limit := r.query.LimitBytes; limit > 0 {
		if r.sent >= limit {
			return 0, io.EOF
		}
		p = p[:min(int64(len(p)), limit-r.sent)]
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	r.sent += int64(n)
	return n, nil
}

// fill reads the next entry that is wanted, and those that are there at once.
func (r *logReader) fill() error {
	const enough = 32 << 10
	r.buf = r.buf[:0]
	for len(r.buf) < enough {
		e, err := r.entries.next(len(r.buf) == 0)
		if err != nil {
			if len(r.buf) > 0 {
				break // it comes again
			}
			return err
		}
		if e.Time.Before(r.query.Since) {
			continue
		}
		if r.query.Timestamps && !r.midLine[e.Stream] {
			r.buf = e.Time.AppendFormat(r.buf, time.RFC3339Nano)
			r.buf = append(r.buf, ' ')
		}
		r.buf = append(r.buf, e.Text...)
		if !e.Partial {
			r.buf = append(r.buf, '\n')
		}
		r.midLine[e.Stream] = e.Partial
	}
	r.rest = r.buf
	return nil
}

// Close implements io.Closer. It makes a Read that is under way return.
func (r *logReader) Close() error { return r.entries.close() }

// entryReader reads the entries of a log folder in their order, across files.
type entryReader struct {
	dir    string
	number int
	file   *os.File
	reader *bufio.Reader
	line   []byte // the beginning of a line whose end is not written yet
	last   bool   // this file is complete: a newer one exists
	missed int    // files that were dropped before they could be read, not told yet

	mu     sync.Mutex // guards file against close
	closed bool

	// Where the log is followed:
	ctx    context.Context
	cancel context.CancelFunc
	wake   chan struct{} // closed when the container has ended
	ended  bool          // wake was closed
	link   *link
	gone   chan struct{}
}

// openEntries opens the log so that the last tail lines are read first.
func openEntries(dir string, tail int) (*entryReader, error) {
	r := &entryReader{dir: dir}
	numbers, err := logNumbers(dir)
	if err != nil {
		return nil, err
	}
	if len(numbers) == 0 {
		return r, nil
	}
	number, offset := numbers[0], int64(0)
	if tail >= 0 {
		if number, offset, err = seekTail(dir, numbers, tail); err != nil {
			return nil, err
		}
	}
	if err := r.open(number); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if r.file != nil && offset > 0 {
		if _, err := r.file.Seek(offset, io.SeekStart); err != nil {
			_ = r.file.Close()
			return nil, err
		}
	}
	return r, nil
}

// logNumbers lists the log files, oldest first.
func logNumbers(dir string) ([]int, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var numbers []int
	for _, f := range files {
		if n := contract.LogNumber(f.Name()); n > 0 {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

func (r *entryReader) open(number int) error {
	file, err := os.Open(filepath.Join(r.dir, contract.LogName(number)))
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		_ = file.Close()
		return fs.ErrClosed
	}
	if r.file != nil {
		_ = r.file.Close()
	}
	r.file, r.number, r.last, r.line = file, number, false, r.line[:0]
	if r.reader == nil {
		r.reader = bufio.NewReaderSize(file, 32<<10)
	} else {
		r.reader.Reset(file)
	}
	return nil
}

// errNothingYet says that there is nothing to read without waiting.
var errNothingYet = errors.New("nothing yet")

// next reads the next entry, whose text is good until the next call. io.EOF
// says that there are no more; errNothingYet, where wait is false, that there
// may be.
func (r *entryReader) next(wait bool) (contract.Entry, error) {
	for {
		if e, ok := r.gap(); ok {
			return e, nil
		}
		if r.file != nil {
			part, err := r.reader.ReadSlice('\n')
			if len(r.line) > 0 || err != nil {
				r.line = append(r.line, part...)
				part = r.line
			}
			switch {
			case err == nil:
				e, ok := contract.ParseEntry(part[:len(part)-1])
				r.line = r.line[:0]
				if ok {
					return e, nil
				}
				continue
			case errors.Is(err, bufio.ErrBufferFull):
				continue
			case errors.Is(err, fs.ErrClosed):
				return contract.Entry{}, io.EOF
			case !errors.Is(err, io.EOF):
				return contract.Entry{}, err
			}
		}
		if moved, err := r.advance(); errors.Is(err, fs.ErrClosed) {
			return contract.Entry{}, io.EOF
		} else if err != nil {
			return contract.Entry{}, err
		} else if moved {
			continue
		}
		if !wait && r.wake != nil && !r.ended {
			return contract.Entry{}, errNothingYet
		}
		if err := r.await(); err != nil {
			return contract.Entry{}, err
		}
	}
}

// advance goes on to the next file, if there is one, but only after the end of
// this one was seen once more: it was written to until the next one began.
func (r *entryReader) advance() (bool, error) {
	numbers, err := logNumbers(r.dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil // removed meanwhile
		}
		return false, err
	}
	i, _ := slices.BinarySearch(numbers, r.number+1)
	if i == len(numbers) {
		return false, nil
	}
	if r.file != nil && !r.last {
		r.last = true
		return true, nil
	}
	read := r.number
	switch err := r.open(numbers[i]); {
	case err == nil:
		r.missed += numbers[i] - read - 1
	case !errors.Is(err, fs.ErrNotExist):
		return false, err
	}
	return true, nil
}

// gap says, once, that output was lost to the reader: the log is bounded, and
// who writes faster than is read drops the oldest of it.
func (r *entryReader) gap() (contract.Entry, bool) {
	if r.missed == 0 {
		return contract.Entry{}, false
	}
	text := fmt.Sprintf("[muster: output is missing here: %d log file(s) were dropped before they could be read]", r.missed)
	r.missed = 0
	return contract.Entry{Time: time.Now(), Stream: contract.Stderr, Text: []byte(text)}, true
}

// await waits for new output.
func (r *entryReader) await() error {
	if r.wake == nil || r.ended {
		return io.EOF
	}
	select {
	case _, more := <-r.wake:
		r.ended = !more // all that was written is there: read once more
		return nil
	case <-r.ctx.Done():
		return io.EOF
	}
}

// watch makes the reader follow: it wakes whenever the shim says that there is
// more, until the shim or ctx ends.
func (r *entryReader) watch(ctx context.Context, l *link) {
	r.ctx, r.cancel = context.WithCancel(ctx)
	r.wake, r.gone = make(chan struct{}, 1), make(chan struct{})
	r.link = l
	go func() {
		defer close(r.gone)
		defer close(r.wake)
		for {
			if _, err := l.reader.ReadByte(); err != nil {
				return
			}
			_, _ = l.reader.Discard(l.reader.Buffered())
			select {
			case r.wake <- struct{}{}:
			default:
			}
		}
	}()
}

func (r *entryReader) close() error {
	if r.link != nil {
		r.cancel() // twice is no harm
		r.link.interrupt()
		<-r.gone
		r.link.close()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil || r.closed {
		return nil
	}
	r.closed = true
	return r.file.Close()
}
