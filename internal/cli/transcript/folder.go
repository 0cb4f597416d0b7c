package transcript

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/answer/archivedlog"
	"github.com/muster-dev/muster/internal/door/visitor"
)

// Kept says which part of an archive is wanted.
type Kept = archivedlog.Kept

// Which chooses among the pods that bore one name.
type Which = archivedlog.Which

// The choices.
const (
	All     = archivedlog.All
	Latest  = archivedlog.Latest
	Earlier = archivedlog.Earlier
)

// Folder is the Archive of a job in a data folder.
type Folder struct {
	logs           archivedlog.Folder
	namespace, job string
}

// ArchiveOf returns the archive of a job below the data folder home. It is
// empty where Muster runs elsewhere.
func ArchiveOf(home string, job *v1alpha1.TrainingJob) Folder {
	return Folder{logs: archivedlog.In(home), namespace: job.Namespace, job: string(job.UID)}
}

// Pods implements [Archive].
func (f Folder) Pods() ([]string, error) { return f.logs.Pods(f.namespace, f.job) }

// Open implements [Archive].
func (f Folder) Open(kept Kept) (io.ReadCloser, error) { return f.logs.Open(f.namespace, f.job, kept) }

// Door has the logs of pods that are gone, for callers who may not read the data folder; a
// *visitor.Visitor is one.
type Door interface {
	// Archived lists the names of the pods of a job.
	Archived(ctx context.Context, namespace, job string) ([]string, error)
	// ArchivedLog reads the output of a pod. fs.ErrNotExist: there is none.
	ArchivedLog(ctx context.Context, namespace, job string, kept Kept) (io.ReadCloser, error)
}

// Behind is the Archive of a job behind a door.
type Behind struct {
	ctx            context.Context
	door           Door
	namespace, job string
}

// ArchiveBehind returns the archive of a job behind a door, which is asked while ctx lasts.
func ArchiveBehind(ctx context.Context, door Door, job *v1alpha1.TrainingJob) Behind {
	return Behind{ctx: ctx, door: door, namespace: job.Namespace, job: string(job.UID)}
}

// Place is where a command finds Muster; *connection.Factory is one.
type Place interface {
	// AsksDoor reports whether the data folder is not the caller's own.
	AsksDoor() bool
	// Visitor asks at the door.
	Visitor() (*visitor.Visitor, error)
}

// ArchiveAt returns the archive of a job: in the data folder home, or behind the door.
func ArchiveAt(ctx context.Context, at Place, home string, job *v1alpha1.TrainingJob) (Archive, error) {
	if !at.AsksDoor() {
		return ArchiveOf(home, job), nil
	}
	door, err := at.Visitor()
	if err != nil {
		return nil, err
	}
	return ArchiveBehind(ctx, door, job), nil
}

// Pods implements [Archive]. A door that keeps nothing has none.
func (b Behind) Pods() ([]string, error) {
	pods, err := b.door.Archived(b.ctx, b.namespace, b.job)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return pods, err
}

// Open implements [Archive].
func (b Behind) Open(kept Kept) (io.ReadCloser, error) {
	return b.door.ArchivedLog(b.ctx, b.namespace, b.job, kept)
}
