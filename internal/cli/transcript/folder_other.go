//go:build !linux

package transcript

import (
	"io"
	"io/fs"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// Folder is the Archive of a job in a data folder, which no other system than
// Linux has: it is empty.
type Folder struct{}

// ArchiveOf returns an empty archive.
func ArchiveOf(string, *v1alpha1.TrainingJob) Folder { return Folder{} }

// Pods implements [Archive].
func (Folder) Pods() ([]string, error) { return nil, nil }

// Open implements [Archive].
func (Folder) Open(Kept) (io.ReadCloser, error) { return nil, fs.ErrNotExist }
