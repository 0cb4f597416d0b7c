package progress

import (
	"path"
	"strings"
	"time"
)

// Entry is a file below the folder of checkpoints, or a folder.
type Entry struct {
	// Path is relative to the folder, with slashes.
	Path string `json:"path"`
	// Device and Inode identify it on the machine.
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
	// Changed and Born are times in nanoseconds since 1970; Born is 0 if the file system does not know it.
	Changed int64 `json:"changed"`
	Born    int64 `json:"born,omitempty"`
	Size    int64 `json:"size"`
	// Regular is true for a file, and not for a folder, link or anything else.
	Regular bool `json:"regular,omitempty"`
}

// farthest is how many entries are skipped at most: a folder that has more is not looked at to its end.
const farthest = 20 * budget

// scanned is look where another program lists the folder: it begins anew each time, and skips what
// earlier looks saw.
func (w *walk) scanned(now time.Time) (finding, error) {
	f := finding{files: map[inode]file{}}
	began := w.skip == 0
	if began {
		w.newest, w.touched = time.Time{}, time.Time{}
	}
	list, more, err := w.scan(w.skip, budget)
	if err != nil {
		return f, err
	}
	for i := range list {
		w.noteEntry(&list[i], now, &f)
	}
	if w.skip += len(list); !more || len(list) == 0 || w.skip >= farthest {
		w.skip = 0
		f.whole = began && !more
		w.lastNewest, w.lastTouched = w.newest, w.touched
	}
	f.newest, f.touched = later(w.newest, w.lastNewest), later(w.touched, w.lastTouched)
	return f, nil
}

// noteEntry notes what one entry tells.
func (w *walk) noteEntry(e *Entry, now time.Time, f *finding) {
	x := file{at: time.Unix(0, e.Changed), temporary: e.Size == 0, birth: &e.Born}
	for part := range strings.SplitSeq(path.Clean(e.Path), "/") {
		if ignored(part) {
			return
		}
		x.temporary = x.temporary || isTemporary(part)
	}
	if e.Regular && !x.at.After(now) {
		w.count(inode{e.Device, e.Inode}, x, f)
	}
}
