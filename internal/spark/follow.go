package spark

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"
)

// followEvery is how often files are looked at into which executors write: a worker
// gives them no other place to.
const followEvery = 500 * time.Millisecond

// follow copies what executors print, below the folder of their worker, until that
// has ended.
func follow(ended <-chan struct{}, work string, out io.Writer) {
	told := map[string]int64{}
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			more(work, told, out)
		case <-ended:
			more(work, told, out)
			return
		}
	}
}

// more copies what is new. What cannot be read is tried again, and lost at worst:
// it is only what people look at.
func more(work string, told map[string]int64, out io.Writer) {
	for _, name := range []string{"stdout", "stderr"} {
		files, err := filepath.Glob(filepath.Join(work, "*", "*", name))
		if err != nil {
			continue
		}
		for _, path := range files {
			n, _ := copyFrom(path, told[path], out)
			told[path] += n
		}
	}
}

// header ends what a worker writes before an executor says anything: its command.
const header = "\n========================================\n\n"

// copyFrom copies what a file has from a place on, and returns how far it came.
func copyFrom(path string, at int64, out io.Writer) (n int64, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if at == 0 && filepath.Base(path) == "stderr" {
		first := make([]byte, 64<<10)
		k, err := io.ReadFull(file, first)
		_, rest, found := bytes.Cut(first[:k], []byte(header))
		if !found && k < len(first) {
			return 0, err // it is being written
		}
		if found {
			n = int64(k - len(rest))
		}
	}
	if _, err := file.Seek(at+n, io.SeekStart); err != nil {
		return 0, err
	}
	more, err := io.Copy(out, file)
	return n + more, err
}
