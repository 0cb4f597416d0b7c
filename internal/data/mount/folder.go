package mount

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/pack"
	"github.com/muster-dev/muster/internal/data/tree"
)

const (
	// dots are the two names that every listing begins with: the folder and the one
	// that it is in.
	dots = 2
	// markEvery is how many names lie between two places from which a listing can be
	// gone on with at once.
	markEvery = 1024
)

// folder is an open folder. Its names are counted from 0, the dots first; a listing
// is gone on with where the last answer ended.
type folder struct {
	path string

	mu sync.Mutex
	// next is the number of the name that comes next, key where it is in the tree;
	// empty: at the beginning.
	next uint64
	key  string
	// marks are the keys at multiples of markEvery, as far as they are known.
	marks []string
}

// OpenDir implements [fuse.RawFileSystem].
func (s *system) OpenDir(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	path, ok := s.nodes.path(in.NodeId)
	if !ok {
		return fuse.Status(syscall.ESTALE)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	s.folders[s.last] = &folder{path: path, next: dots}
	out.Fh, out.OpenFlags = s.last, fuse.FOPEN_KEEP_CACHE|fuse.FOPEN_CACHE_DIR
	return fuse.OK
}

// ReleaseDir implements [fuse.RawFileSystem].
func (s *system) ReleaseDir(in *fuse.ReleaseIn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.folders, in.Fh)
}

// ReadDir implements [fuse.RawFileSystem].
func (s *system) ReadDir(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return s.list(cancel, in, func(d fuse.DirEntry, _ *data.Entry) bool { return out.AddDirEntry(d) })
}

// ReadDirPlus implements [fuse.RawFileSystem]: names with attributes, which cost
// nothing more here and save as many questions.
func (s *system) ReadDirPlus(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return s.list(cancel, in, func(d fuse.DirEntry, e *data.Entry) bool {
		told := out.AddDirLookupEntry(d)
		if told != nil && e != nil {
			s.entry(e, told)
		}
		return told != nil
	})
}

// list answers with the names from an offset on, as many as fit. Each has as its
// offset the number of the next.
func (s *system) list(cancel <-chan struct{}, in *fuse.ReadIn, add func(fuse.DirEntry, *data.Entry) bool) fuse.Status {
	s.mu.Lock()
	f := s.folders[in.Fh]
	s.mu.Unlock()
	if f == nil {
		return fuse.EBADF
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	at, added := in.Offset, 0
	for _, name := range []string{".", ".."}[min(at, dots):] {
		if !add(fuse.DirEntry{Name: name, Mode: syscall.S_IFDIR, Ino: in.NodeId, Off: at + 1}, nil) {
			return fuse.OK
		}
		at, added = at+1, added+1
	}
	f.seek(at)
	err := s.each(begun(cancel), f.path, f.key, func(e *data.Entry, behind string) bool {
		if f.next >= at {
			name := e.Path[strings.LastIndexByte(e.Path, '/')+1:]
			if !add(fuse.DirEntry{Name: name, Mode: mode(e), Ino: number(e.Path), Off: f.next + 1}, e) {
				return false
			}
			added++
		}
		f.went(behind)
		return true
	})
	if err != nil && added == 0 {
		return s.status(f.path, err)
	}
	return fuse.OK // what failed fails again with the next question
}

// went notes that a name was passed.
func (f *folder) went(behind string) {
	f.next, f.key = f.next+1, behind
	if n := f.next - dots; n%markEvery == 0 && n/markEvery == uint64(len(f.marks))+1 {
		f.marks = append(f.marks, behind)
	}
}

// seek goes to the nearest known place that is not behind an offset.
func (f *folder) seek(offset uint64) {
	if f.next == offset {
		return
	}
	mark := min((offset-dots)/markEvery, uint64(len(f.marks)))
	f.next, f.key = dots+mark*markEvery, ""
	if mark > 0 {
		f.key = f.marks[mark-1]
	}
}

// each shows what is directly in a folder, from a key on (empty: all), until see has
// seen enough; behind is the key of what comes next. It reads the nodes of the tree
// that have such names, and passes by what is below.
func (s *system) each(ctx context.Context, folder, key string, see func(e *data.Entry, behind string) bool) error {
	if s.only != "" {
		e, err := s.find(ctx, s.only)
		if err == nil && key <= s.only {
			see(&e, e.Path+"\x00")
		}
		return err
	}
	prefix := folder + "/"
	if folder == "" {
		prefix = ""
	}
	if key == "" {
		key = prefix
	}
	for more := true; more; {
		below := ""
		err := s.view.From(ctx, key, func(e *data.Entry) error {
			if !strings.HasPrefix(e.Path, prefix) {
				return data.Stop
			}
			if cut := strings.IndexByte(e.Path[len(prefix):], '/'); cut >= 0 {
				below = e.Path[:len(prefix)+cut]
				return data.Stop
			}
			if !see(e, e.Path+"\x00") {
				return data.Stop
			}
			return nil
		})
		if err != nil || below == "" {
			return err
		}
		if e, err := s.view.Stat(ctx, below); err != nil {
			return err
		} else if e.Kind != tree.Folder {
			return fmt.Errorf("%q is a file or link, and a folder: %w", below, pack.ErrDamaged)
		}
		key = below + "0" // the character after the slash
		more = see(&data.Entry{Path: below, Kind: tree.Folder}, key)
	}
	return nil
}
