package worktree

import (
	"os"
	"path"
	"sync"
)

// mostFolders is how many folders are open at most, beside those in use.
const mostFolders = 16

// folders keeps the folders open that were used last: a path of one name costs one system call,
// where each folder of a longer one costs another.
type folders struct {
	root *os.Root

	mu   sync.Mutex
	open map[string]*folder
	used int64
}

// folder is an open folder. It is closed once nobody uses it.
type folder struct {
	root  *os.Root
	users int
	last  int64
}

// of returns the folder of a path and the name in it. done has to be called.
func (f *folders) of(name string) (root *os.Root, base string, done func(), err error) {
	dir, base := path.Dir(name), path.Base(name)
	if dir == "." || base == ".." || base == "." {
		return f.root, name, func() {}, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	found := f.open[dir]
	if found == nil {
		// Without the dot the call waits for a pipe that another process puts there.
		if root, err = f.root.OpenRoot(dir + "/."); err != nil {
			return nil, "", nil, err
		}
		found = &folder{root: root}
		if f.open == nil {
			f.open = map[string]*folder{}
		}
		f.open[dir] = found
	}
	f.used++
	found.users++
	found.last = f.used
	f.trim()
	return found.root, base, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		found.users--
	}, nil
}

// trim closes the folder that was used longest ago, if there are too many. The lock is held.
func (f *folders) trim() {
	if len(f.open) <= mostFolders {
		return
	}
	oldest := ""
	for dir, one := range f.open {
		if one.users == 0 && (oldest == "" || one.last < f.open[oldest].last) {
			oldest = dir
		}
	}
	if oldest != "" {
		_ = f.open[oldest].root.Close()
		delete(f.open, oldest)
	}
}

// close closes all folders. Nobody may use one any more.
func (f *folders) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for dir, one := range f.open {
		_ = one.root.Close()
		delete(f.open, dir)
	}
}
