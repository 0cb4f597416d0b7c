package mount

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/glob"
	"github.com/muster-dev/muster/internal/data/tree"
)

const (
	// forever is how long the kernel may keep what it learned: a commit never changes.
	forever = 10 * 365 * 24 * time.Hour
	// blockSize is the unit in which sizes are told.
	blockSize = 4096
)

// errNone says that a path is not there.
var errNone = errors.New("there is no such path")

// system answers the kernel.
type system struct {
	fuse.RawFileSystem // what is not answered below is not implemented

	view *data.View
	// top is the folder that is the root, only the one file that is shown of it;
	// empty: all are.
	top, only string
	usage     data.Usage
	patience  time.Duration
	log       *slog.Logger
	cancel    context.CancelFunc
	nodes     *nodes
	chunks    *chunks

	mu      sync.Mutex
	last    uint64 // handle
	files   map[uint64]*file
	folders map[uint64]*folder
}

// newSystem finds out what is to be shown.
func newSystem(ctx context.Context, o Options) (*system, error) {
	name := strings.Trim(path.Clean("/"+o.Path), "/")
	if glob.IsPattern(name) {
		return nil, fmt.Errorf("%q is a pattern: a mount shows a folder or a file: name that", o.Path)
	}
	found, err := o.View.Stat(ctx, glob.Literal(name))
	if err != nil {
		return nil, err
	}
	s := &system{
		RawFileSystem: fuse.NewDefaultRawFileSystem(), view: o.View, patience: o.Patience, log: o.Log,
		files: map[uint64]*file{}, folders: map[uint64]*folder{},
	}
	if found.Kind == tree.Folder {
		s.top, s.usage = found.Path, data.Usage{Files: found.Files, Bytes: found.Size}
	} else {
		s.only, s.usage = found.Path, data.Usage{Files: 1, Bytes: found.Size}
		if s.top = path.Dir(found.Path); s.top == "." {
			s.top = ""
		}
	}
	s.nodes = newNodes(s.top)
	ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.chunks = newChunks(ctx, o.Memory, s.load)
	return s, nil
}

// end ends what runs beside requests. There are none any more.
func (s *system) end() {
	s.cancel()
	s.chunks.readers.Wait()
}

// String names the file system.
func (s *system) String() string { return kind }

// load reads a chunk.
func (s *system) load(ctx context.Context, p data.Piece) (raw []byte, err error) {
	err = persist(ctx, s.patience, func() error {
		raw, err = s.view.Load(ctx, p)
		return err
	})
	return raw, err
}

// request is the context of one request of the kernel, which ends when whoever waits
// for the answer gets a signal.
type request struct {
	context.Context
	cancel <-chan struct{}
}

func begun(cancel <-chan struct{}) context.Context {
	return request{context.Background(), cancel}
}

// Done implements [context.Context].
func (r request) Done() <-chan struct{} { return r.cancel }

// Err implements [context.Context].
func (r request) Err() error {
	select {
	case <-r.cancel:
		return context.Canceled
	default:
		return nil
	}
}

// status is an error as the kernel is told of it; others read it in the log.
func (s *system) status(path string, err error) fuse.Status {
	switch {
	case err == nil:
		return fuse.OK
	case errors.Is(err, errNone):
		return fuse.ENOENT
	case errors.Is(err, context.Canceled):
		return fuse.EINTR
	}
	s.log.Error("reading a mount: whoever reads it is told of an input/output error", "path", path, "error", err)
	return fuse.EIO
}

// find is what is at a path.
func (s *system) find(ctx context.Context, path string) (found data.Entry, err error) {
	if path == s.top {
		return data.Entry{Path: path, Kind: tree.Folder}, nil
	}
	if s.only != "" && path != s.only {
		return found, errNone
	}
	err = persist(ctx, s.patience, func() error {
		found, err = s.look(ctx, path)
		return err
	})
	return found, err
}

// look looks for what is at a path; for a folder that is something below it.
func (s *system) look(ctx context.Context, path string) (data.Entry, error) {
	first, err := s.first(ctx, path)
	if err != nil || first.Path == path {
		return first, err
	}
	if !strings.HasPrefix(first.Path, path+"/") {
		// What comes between a name and what is below it: "a-b" between "a" and "a/b".
		if first, err = s.first(ctx, path+"/"); err != nil {
			return first, err
		}
	}
	if !strings.HasPrefix(first.Path, path+"/") {
		return data.Entry{}, errNone
	}
	return data.Entry{Path: path, Kind: tree.Folder}, nil
}

// first is the first entry from a path on.
func (s *system) first(ctx context.Context, path string) (found data.Entry, err error) {
	err = s.view.From(ctx, path, func(e *data.Entry) error {
		found = *e
		return data.Stop
	})
	return found, err
}

// attributes are those of an entry.
func (s *system) attributes(e *data.Entry, id uint64, out *fuse.Attr) {
	made := s.view.Commit().Time
	seconds, rest := uint64(max(made.Unix(), 0)), uint32(made.Nanosecond())
	*out = fuse.Attr{
		Ino: id, Nlink: 1, Blksize: blockSize,
		Atime: seconds, Mtime: seconds, Ctime: seconds, Atimensec: rest, Mtimensec: rest, Ctimensec: rest,
		Owner: fuse.Owner{Uid: uint32(os.Geteuid()), Gid: uint32(os.Getegid())},
	}
	out.Mode = mode(e)
	out.Size = uint64(e.Size)
	if e.Kind == tree.Folder {
		out.Size = blockSize
	}
	out.Blocks = (out.Size + 511) / 512
}

// mode is what an entry is, and who may do what with it.
func mode(e *data.Entry) uint32 {
	switch {
	case e.Kind == tree.Folder:
		return syscall.S_IFDIR | 0o555
	case e.Kind == tree.Link:
		return syscall.S_IFLNK | 0o777
	case e.Executable:
		return syscall.S_IFREG | 0o555
	}
	return syscall.S_IFREG | 0o444
}

// entry tells the kernel of an entry, which it knows from now on.
func (s *system) entry(e *data.Entry, out *fuse.EntryOut) {
	out.NodeId, out.Generation = s.nodes.give(e.Path), 1
	s.attributes(e, out.NodeId, &out.Attr)
	out.SetEntryTimeout(forever)
	out.SetAttrTimeout(forever)
}

// Lookup implements [fuse.RawFileSystem].
func (s *system) Lookup(cancel <-chan struct{}, header *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	folder, ok := s.nodes.path(header.NodeId)
	if !ok {
		return fuse.Status(syscall.ESTALE)
	}
	at := path.Join(folder, name)
	found, err := s.find(begun(cancel), at)
	if errors.Is(err, errNone) {
		*out = fuse.EntryOut{} // number 0: nothing is there, and the kernel may remember it
		out.SetEntryTimeout(forever)
		return fuse.OK
	}
	if err != nil {
		return s.status(at, err)
	}
	s.entry(&found, out)
	return fuse.OK
}

// Forget implements [fuse.RawFileSystem].
func (s *system) Forget(id, times uint64) { s.nodes.forget(id, times) }

// at is what a number stands for.
func (s *system) at(cancel <-chan struct{}, id uint64) (data.Entry, fuse.Status) {
	path, ok := s.nodes.path(id)
	if !ok {
		return data.Entry{}, fuse.Status(syscall.ESTALE)
	}
	found, err := s.find(begun(cancel), path)
	return found, s.status(path, err)
}

// GetAttr implements [fuse.RawFileSystem].
func (s *system) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	found, status := s.at(cancel, in.NodeId)
	if status.Ok() {
		s.attributes(&found, in.NodeId, &out.Attr)
		out.SetTimeout(forever)
	}
	return status
}

// Readlink implements [fuse.RawFileSystem].
func (s *system) Readlink(cancel <-chan struct{}, header *fuse.InHeader) ([]byte, fuse.Status) {
	found, status := s.at(cancel, header.NodeId)
	if status.Ok() && found.Kind != tree.Link {
		status = fuse.EINVAL
	}
	return []byte(found.Target), status
}

// StatFs implements [fuse.RawFileSystem]: a disk of this size that is full.
func (s *system) StatFs(_ <-chan struct{}, _ *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	*out = fuse.StatfsOut{
		Blocks: uint64(s.usage.Bytes+blockSize-1) / blockSize, Files: uint64(s.usage.Files),
		Bsize: blockSize, Frsize: blockSize, NameLen: tree.MaxPart,
	}
	return fuse.OK
}
