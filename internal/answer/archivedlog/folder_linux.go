package archivedlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/muster-dev/muster/internal/node/archive"
	"github.com/muster-dev/muster/internal/node/process"
)

// Folder is the archive of a data folder. Its methods may be called concurrently.
type Folder struct{ logs *archive.Archive }

// In returns the archive of the data folder home, which need not exist.
func In(home string) Folder { return Folder{archive.New(filepath.Join(home, "archive"))} }

// Pods lists the names of the pods of a job, by its namespace and UID.
func (f Folder) Pods(namespace, job string) ([]string, error) {
	entries, err := f.list(namespace, job)
	var names []string
	for _, entry := range entries {
		if !slices.Contains(names, entry.Pod) {
			names = append(names, entry.Pod)
		}
	}
	return names, err
}

// Open reads the output of a pod, every line with its time. fs.ErrNotExist: there is none.
func (f Folder) Open(namespace, job string, kept Kept) (io.ReadCloser, error) {
	entries, err := f.list(namespace, job)
	if err != nil {
		return nil, err
	}
	entries = kept.choose(entries)
	if len(entries) == 0 {
		return nil, fs.ErrNotExist
	}
	all := &chain{}
	for _, entry := range entries {
		opened, err := process.OpenLogs(entry.Dir, process.LogQuery{Since: kept.Since, Tail: kept.Tail, Timestamps: true})
		if err != nil {
			return nil, errors.Join(err, all.Close())
		}
		all.parts = append(all.parts, opened)
	}
	return all, nil
}

func (f Folder) list(namespace, job string) ([]archive.Entry, error) {
	for _, name := range []string{namespace, job} {
		if name == "" || strings.ContainsAny(name, "/.\x00") {
			return nil, fmt.Errorf("%w: %q", ErrName, name)
		}
	}
	return f.logs.List(namespace, job)
}

// choose returns the entries that are wanted, the oldest first.
func (k Kept) choose(entries []archive.Entry) []archive.Entry {
	last := 0
	var chosen []archive.Entry
	for _, entry := range entries {
		if entry.Pod == k.Pod && (k.Container == "" || entry.Container == k.Container) {
			last = max(last, entry.Sequence)
			chosen = append(chosen, entry)
		}
	}
	chosen = slices.DeleteFunc(chosen, func(entry archive.Entry) bool {
		return k.Which == Latest && entry.Sequence != last || k.Which == Earlier && entry.Sequence == last
	})
	if k.Tail >= 0 && len(chosen) > 1 {
		chosen = chosen[len(chosen)-1:]
	}
	return chosen
}

// chain reads several readers one after the other and closes them all.
type chain struct{ parts []io.ReadCloser }

func (c *chain) Read(p []byte) (int, error) {
	for len(c.parts) > 0 {
		n, err := c.parts[0].Read(p)
		if n > 0 || err != nil && !errors.Is(err, io.EOF) {
			return n, dropEOF(err)
		}
		if err != nil {
			_ = c.parts[0].Close()
			c.parts = c.parts[1:]
		}
	}
	return 0, io.EOF
}

func dropEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// Close closes what has not been read to its end.
func (c *chain) Close() error {
	var err error
	for _, part := range c.parts {
		err = errors.Join(err, part.Close())
	}
	c.parts = nil
	return err
}
