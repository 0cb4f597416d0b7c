package progress

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// budget is how many entries of a folder are looked at in one look. A
	// folder that has more is looked at in parts, from look to look.
	budget = 5000
	// batch is how many entries are read at once.
	batch = 256
	// maxDepth is how deep folders may lie in one another.
	maxDepth = 16
)

// inode identifies a file on the machine.
type inode struct{ device, number uint64 }

// finding is what one look at a folder found.
type finding struct {
	// newest is when the newest file that counts was written, of all that the
	// walk under way and the one before it have seen.
	newest time.Time
	// touched is the same of temporary files, too.
	touched time.Time
	// files are those of this look that may be part of a save.
	files map[inode]file
	// whole is true where this look saw everything.
	whole bool
}

// file is what is known of one file.
type file struct {
	at        time.Time
	temporary bool
	// dir and name are where it was seen.
	dir, name string
	// birth is when it was made, if that is known already; nil: it is not.
	birth *int64
}

// born is when the file was made, where the file system knows that; else 0.
func (x file) born() int64 {
	if x.birth != nil {
		return *x.birth
	}
	var s unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, filepath.Join(x.dir, x.name), unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME, &s)
	if err != nil || s.Mask&unix.STATX_BTIME == 0 {
		return 0
	}
	return s.Btime.Sec*1e9 + int64(s.Btime.Nsec)
}

// newestOf is the newest file, of those that are wanted, that is not temporary.
func (f *finding) newestOf(wanted func(inode, file) bool) (inode, time.Time) {
	var id inode
	var at time.Time
	for i, x := range f.files {
		older := x.at.Before(at) || x.at.Equal(at) && (i.device < id.device || i.device == id.device && i.number <= id.number)
		if !x.temporary && !older && wanted(i, x) {
			id, at = i, x.at
		}
	}
	return id, at
}

// walk goes through a folder in parts.
type walk struct {
	root  string
	stack []level
	// scan lists the folder in place of the walk, after the entries that skip counts. Nil: it is walked.
	scan func(skip, most int) ([]Entry, bool, error)
	skip int
	// newest and touched are of the walk under way, and last of the whole walk
	// before it.
	newest, touched         time.Time
	lastNewest, lastTouched time.Time
}

// level is a folder that a walk has begun to read.
type level struct {
	dir     *os.File
	path    string
	pending []os.DirEntry
	// temporary is true inside a folder with a temporary name: it will be
	// renamed when all is in it.
	temporary bool
}

// close ends a walk.
func (w *walk) close() {
	for _, l := range w.stack {
		_ = l.dir.Close()
	}
	w.stack, w.skip = nil, 0
}

// look goes on with the walk for as many entries as one look may cost. Files
// that were written after now are taken for not there: a clock was set.
func (w *walk) look(now time.Time) (finding, error) {
	if w.scan != nil {
		return w.scanned(now)
	}
	f := finding{files: map[inode]file{}}
	began := len(w.stack) == 0
	if began {
		w.newest, w.touched = time.Time{}, time.Time{}
		if err := w.enter(w.root, false); err != nil {
			return f, err
		}
	}
	left := budget
	for left > 0 && len(w.stack) > 0 {
		left -= w.step(now, left, &f)
	}
	if len(w.stack) == 0 {
		f.whole = began
		w.lastNewest, w.lastTouched = w.newest, w.touched
	}
	f.newest, f.touched = later(w.newest, w.lastNewest), later(w.touched, w.lastTouched)
	return f, nil
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// enter begins to read a folder; below the first, not one that a link leads to.
func (w *walk) enter(path string, temporary bool) error {
	flags := os.O_RDONLY | syscall.O_DIRECTORY
	if len(w.stack) > 0 {
		flags |= syscall.O_NOFOLLOW
	}
	dir, err := os.OpenFile(path, flags, 0)
	if err != nil {
		return err
	}
	w.stack = append(w.stack, level{dir: dir, path: path, temporary: temporary})
	return nil
}

// step looks at the next entries of the innermost folder, at most so many, and
// returns what that cost.
func (w *walk) step(now time.Time, left int, f *finding) int {
	l := &w.stack[len(w.stack)-1]
	if len(l.pending) == 0 {
		// What cannot be read, or is gone, ends the folder: it does not count.
		if l.pending, _ = l.dir.ReadDir(batch); len(l.pending) == 0 {
			_ = l.dir.Close()
			w.stack = w.stack[:len(w.stack)-1]
			return 1
		}
	}
	cost := 0
	for cost < left && len(l.pending) > 0 {
		entry := l.pending[0]
		l.pending = l.pending[1:]
		cost++
		temporary := l.temporary || isTemporary(entry.Name())
		switch {
		case ignored(entry.Name()):
		case entry.IsDir():
			if len(w.stack) < maxDepth && w.enter(filepath.Join(l.path, entry.Name()), temporary) == nil {
				return cost // go on inside; l may have moved
			}
		case entry.Type().IsRegular():
			w.note(entry, file{temporary: temporary, dir: l.path, name: entry.Name()}, now, f)
		}
	}
	return cost
}

// note notes what one file tells.
func (w *walk) note(entry os.DirEntry, x file, now time.Time, f *finding) {
	info, err := entry.Info()
	if err != nil || !info.Mode().IsRegular() {
		return
	}
	if x.at = changed(info); x.at.After(now) {
		return
	}
	x.temporary = x.temporary || info.Size() == 0
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		w.count(inode{s.Dev, s.Ino}, x, f)
	}
}

// count counts one file that may be part of a save.
func (w *walk) count(id inode, x file, f *finding) {
	f.files[id] = x
	w.touched = later(w.touched, x.at)
	if !x.temporary {
		w.newest = later(w.newest, x.at)
	}
}

// isTemporary tells names by which programs write before they rename.
func isTemporary(name string) bool {
	lower := strings.ToLower(name)
	for _, part := range []string{".tmp", ".temp", ".part", ".partial", ".incomplete", ".tempstate", ".new", ".writing", ".swp", "~", ".crc"} {
		if strings.HasSuffix(lower, part) {
			return true
		}
	}
	return strings.HasPrefix(lower, "tmp") || strings.HasPrefix(lower, ".") || strings.Contains(lower, ".tmp.") || strings.Contains(lower, ".tmp-") || strings.Contains(lower, "-tmp-") || strings.Contains(lower, "tempstate")
}

// ignored tells logs and the like, which are written all the time and save
// nothing: neither that they are open nor when they were written counts.
func ignored(name string) bool {
	lower := strings.ToLower(name)
	for _, end := range []string{".log", ".out", ".err", ".csv", ".tsv", ".jsonl", ".lock", ".pid", ".wandb", ".sqlite", ".sqlite3", ".db", ".db-wal", ".db-shm", ".db-journal", ".pyc"} {
		if strings.HasSuffix(lower, end) {
			return true
		}
	}
	return strings.HasPrefix(lower, "events.out.tfevents") || lower == "__pycache__" || lower == "wandb" || lower == ".git" || strings.HasPrefix(lower, ".nfs")
}
