package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/shim/contract"
)

const (
	// readSize is how much output is taken at once.
	readSize = 32 << 10
	// holdFor is how long the beginning of a line waits for its end before it
	// is logged on its own, so that progress bars are seen.
	holdFor = 100 * time.Millisecond
)

// journal is the log files of a container: numbered upwards, the oldest
// removed when there are too many.
type journal struct {
	limits contract.LogLimits

	mu       sync.Mutex
	folder   *os.Root
	file     *os.File
	number   int
	size     int64
	lost     int64 // bytes that could not be written
	lostFor  error
	watchers map[*conn]bool
}

func openJournal(root *os.Root, limits contract.LogLimits) (*journal, error) {
	if limits.MaxBytes <= 0 {
		limits.MaxBytes = contract.DefaultLogBytes
	}
	if limits.MaxFiles <= 0 {
		limits.MaxFiles = contract.DefaultLogFiles
	}
	folder, err := root.OpenRoot(contract.LogFolder)
	if err != nil {
		return nil, err
	}
	j := &journal{limits: limits, folder: folder, watchers: map[*conn]bool{}}
	return j, j.next()
}

// next begins the next file and removes the one that is then too many.
func (j *journal) next() error {
	file, err := j.folder.OpenFile(contract.LogName(j.number+1), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if j.file != nil {
		_ = j.file.Close()
	}
	j.file, j.size = file, 0
	j.number++
	if old := j.number - j.limits.MaxFiles; old > 0 {
		if err := j.folder.Remove(contract.LogName(old)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// write appends whole entries. It never fails: what cannot be written is
// counted, and mentioned once writing is possible again.
func (j *journal) write(entries []byte) {
	if len(entries) == 0 {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for len(entries) > 0 {
		part := entries
		if room := j.limits.MaxBytes - j.size; int64(len(part)) > room {
			// As many entries as fit, but one at least in each file.
			n := bytes.LastIndexByte(part[:max(room, 0)], '\n') + 1
			if n == 0 && j.size > 0 {
				if err := j.next(); err != nil {
					j.lose(int64(len(entries)), err)
					return
				}
				continue
			}
			if n == 0 {
				n = bytes.IndexByte(part, '\n') + 1
			}
			part = part[:n]
		}
		entries = entries[len(part):]
		j.append(part)
	}
	for w := range j.watchers {
		w.nudge()
	}
}

func (j *journal) append(entries []byte) {
	if j.lost > 0 {
		note := contract.AppendEntry(nil, contract.Entry{
			Time: time.Now(), Stream: contract.Stderr,
			Text: fmt.Appendf(nil, "muster: %d bytes of output were not logged: %v", j.lost, j.lostFor),
		})
		if !j.appendWhole(note) {
			j.lost += int64(len(entries))
			return
		}
		j.lost = 0
	}
	if !j.appendWhole(entries) {
		j.lost += int64(len(entries))
	}
}

// appendWhole writes all of entries or nothing.
func (j *journal) appendWhole(entries []byte) bool {
	n, err := j.file.Write(entries)
	if err == nil {
		j.size += int64(n)
		return true
	}
	j.lostFor = err
	if n > 0 {
		_ = j.file.Truncate(j.size)
	}
	return false
}

func (j *journal) lose(n int64, err error) {
	j.lost += n
	j.lostFor = err
}

// watch tells a connection of new output until it closes.
func (j *journal) watch(c *conn) {
	j.mu.Lock()
	j.watchers[c] = true
	j.mu.Unlock()
	c.nudge() // what was written before is new to the watcher
}

func (j *journal) unwatch(c *conn) {
	j.mu.Lock()
	delete(j.watchers, c)
	j.mu.Unlock()
}

// pump logs what comes out of a pipe or terminal, until its end.
func (j *journal) pump(from *os.File, stream contract.Stream, hold time.Duration) {
	framer := contract.Framer{Stream: stream}
	buf, out := make([]byte, readSize), make([]byte, 0, readSize+readSize/2)
	for {
		var deadline time.Time
		if framer.Holding() {
			deadline = time.Now().Add(hold)
		}
		_ = from.SetReadDeadline(deadline)
		n, err := from.Read(buf)
		now := time.Now()
		out = framer.Append(out[:0], now, buf[:n])
		if hold == 0 || err != nil {
			out = framer.Flush(out, now)
		}
		j.write(out)
		switch {
		case err == nil, errors.Is(err, os.ErrDeadlineExceeded):
		case errors.Is(err, io.EOF), errors.Is(err, unix.EIO): // a terminal ends with EIO
			return
		default:
			j.write(contract.AppendEntry(nil, contract.Entry{
				Time: now, Stream: contract.Stderr, Text: fmt.Appendf(nil, "muster: reading the output: %v", err),
			}))
			return
		}
	}
}
