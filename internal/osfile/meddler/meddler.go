//go:build linux

package meddler

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// Public is the content of all files that a meddler makes, once or several times; Secret is the
// content of the file outside.
const (
	Public = "public "
	Secret = "secret"
)

// Meddler changes the things of some names until it is stopped: each is, one after the other, a short
// file, a long one, a folder with a file, a pipe, a socket, a link to a file outside, a link to a
// folder outside, and nothing.
type Meddler struct {
	// Outside is a folder with one file, "secret".
	Outside string

	stop  func()
	group sync.WaitGroup
}

// Start begins to change names in a folder. No name may lie below another one. A folder that the
// meddler makes has a file "secret", too.
func Start(t testing.TB, folder string, names ...string) *Meddler {
	t.Helper()
	work := t.TempDir()
	m := &Meddler{Outside: filepath.Join(work, "outside")}
	if err := errors.Join(os.Mkdir(m.Outside, 0o755), os.WriteFile(filepath.Join(m.Outside, Secret), []byte(Secret), 0o600)); err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	m.stop = sync.OnceFunc(func() { close(over) })
	t.Cleanup(m.Stop)
	m.group.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-over:
				return
			default:
				m.change(filepath.Join(work, "next"), filepath.Join(folder, names[i%len(names)]), i/len(names))
			}
		}
	})
	return m
}

// Stop ends the changes, and waits until the last one is done.
func (m *Meddler) Stop() {
	m.stop()
	m.group.Wait()
}

// change makes something, and exchanges it for the entry at a path. Errors are ignored: the code under
// test may have removed the folder.
func (m *Meddler) change(next, at string, turn int) {
	_ = os.RemoveAll(next)
	switch turn % 8 {
	case 0:
		_ = os.WriteFile(next, []byte(Public), 0o600)
	case 1:
		_ = os.WriteFile(next, []byte(strings.Repeat(Public, 10_000)), 0o755)
	case 2:
		_ = os.Mkdir(next, 0o755)
		_ = os.WriteFile(filepath.Join(next, Secret), []byte(Public), 0o600)
	case 3:
		_ = unix.Mkfifo(next, 0o600)
	case 4:
		_ = unix.Mknod(next, unix.S_IFSOCK|0o600, 0)
	case 5:
		_ = os.Symlink(filepath.Join(m.Outside, Secret), next)
	case 6:
		_ = os.Symlink(m.Outside, next)
	case 7:
		_ = os.RemoveAll(at)
		return
	}
	if unix.Renameat2(unix.AT_FDCWD, next, unix.AT_FDCWD, at, unix.RENAME_EXCHANGE) != nil {
		_ = os.Rename(next, at)
	}
}

// Untouched fails the test if the folder outside was changed.
func (m *Meddler) Untouched(t testing.TB) {
	t.Helper()
	m.Stop()
	list, err := os.ReadDir(m.Outside)
	if err != nil || len(list) != 1 {
		t.Errorf("outside is %v, %v", list, err)
	}
	if text, err := os.ReadFile(filepath.Join(m.Outside, Secret)); err != nil || string(text) != Secret {
		t.Errorf("the file outside is %q, %v", text, err)
	}
}

// Leaked reports whether a content is not one of a file that a meddler makes: it is from the file
// outside, or from two files.
func Leaked(content string) bool { return strings.ReplaceAll(content, Public, "") != "" }
