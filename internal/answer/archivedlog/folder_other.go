//go:build !linux

package archivedlog

import (
	"io"
	"io/fs"
)

// Folder is the archive of a data folder, which no other system than Linux has: it is empty.
type Folder struct{}

// In returns an empty archive.
func In(string) Folder { return Folder{} }

// Pods lists nothing.
func (Folder) Pods(string, string) ([]string, error) { return nil, nil }

// Open finds nothing.
func (Folder) Open(string, string, Kept) (io.ReadCloser, error) { return nil, fs.ErrNotExist }
