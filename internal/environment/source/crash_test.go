package source

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var errPower = errors.New("the power is gone")

// brittleDisk loses power at its nth operation. What was not synced by then is
// lost in the worst way: contents become empty, names vanish.
type brittleDisk struct {
	osDisk
	mu    sync.Mutex
	left  int // operations until the power goes; negative: never
	count int
	dead  bool
	// unsynced contents and names, by path.
	contents, names map[string]bool
	// removed are files whose removal is not synced, with what they held.
	removed map[string][]byte
}

func newBrittleDisk(left int) *brittleDisk {
	return &brittleDisk{left: left, contents: map[string]bool{}, names: map[string]bool{}, removed: map[string][]byte{}}
}

// step is called before each operation; note is run if there is power.
func (d *brittleDisk) step(note func()) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead || d.count == d.left {
		d.dead = true
		return errPower
	}
	d.count++
	note()
	return nil
}

func (d *brittleDisk) mkdir(path string) error {
	if err := d.step(func() {}); err != nil {
		return err
	}
	return d.osDisk.mkdir(path)
}

func (d *brittleDisk) create(path string) (file, error) {
	if err := d.step(func() { d.contents[path] = true }); err != nil {
		return nil, err
	}
	f, err := d.osDisk.create(path)
	return &brittleFile{file: f, disk: d, path: path}, err
}

func (d *brittleDisk) rename(from, to string) error {
	return d.step(func() {
		if d.contents[from] {
			d.contents[to] = true
		}
		delete(d.contents, from)
		d.names[to] = true
		_ = d.osDisk.rename(from, to)
	})
}

func (d *brittleDisk) remove(path string) error {
	return d.step(func() {
		if data, err := os.ReadFile(path); err == nil {
			d.removed[path] = data
		}
		_ = d.osDisk.remove(path)
	})
}

func (d *brittleDisk) touch(path string, at time.Time) (err error) {
	if gone := d.step(func() { err = d.osDisk.touch(path, at) }); gone != nil {
		return gone
	}
	return err
}

func (d *brittleDisk) syncDir(path string) error {
	return d.step(func() {
		for name := range d.removed {
			if filepath.Dir(name) == path {
				delete(d.removed, name)
			}
		}
		for name := range d.names {
			if filepath.Dir(name) == path {
				delete(d.names, name)
			}
		}
	})
}

// lose carries out the loss of power. Of the files whose removal was not
// synced, those come back that back says.
func (d *brittleDisk) lose(t *testing.T, back func() bool) {
	for path, data := range d.removed {
		if back() {
			must(t, os.WriteFile(path, data, 0o600))
		}
	}
	for path := range d.contents {
		if err := os.Truncate(path, 0); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	for path := range d.names {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

type brittleFile struct {
	file
	disk *brittleDisk
	path string
}

func (f *brittleFile) Write(p []byte) (int, error) {
	if err := f.disk.step(func() {}); err != nil {
		n, _ := f.file.Write(p[:len(p)/2]) // torn
		return n, err
	}
	return f.file.Write(p)
}

func (f *brittleFile) Sync() error {
	return f.disk.step(func() { delete(f.disk.contents, f.path) })
}

func TestStoreHealsAfterLosingPowerAtEveryWrite(t *testing.T) {
	table := map[string]string{}
	for i := range 6 {
		table[fmt.Sprintf("d%d/f%d", i%2, i)] = fmt.Sprint("content ", i)
	}
	dir := files(t, table)
	older := files(t, map[string]string{"old.py": "old", "same": "content 1"})

	whole := newBrittleDisk(-1)
	crashAt(t, whole, dir, older)
	if whole.count < 20 {
		t.Fatalf("only %d operations", whole.count)
	}
	for n := range whole.count {
		t.Run(fmt.Sprint(n), func(t *testing.T) { crashAt(t, newBrittleDisk(n), dir, older) })
	}
}

// crashAt takes a snapshot on a disk that loses power on the way, and looks at
// what is left.
func crashAt(t *testing.T, disk *brittleDisk, dir, older string) {
	home := filepath.Join(t.TempDir(), "code")
	store, err := Open(home)
	must(t, err)
	old, err := store.Snapshot(t.Context(), older, Options{})
	must(t, err)

	store, err = open(home, disk)
	var result Result
	if err == nil {
		result, err = store.Snapshot(t.Context(), dir, Options{})
	}
	if disk.left >= 0 && !errors.Is(err, errPower) {
		t.Fatalf("got %v", err)
	}
	disk.lose(t, func() bool { return true })

	// What was acknowledged is there, and a new snapshot is whole.
	store, err = Open(home)
	must(t, err)
	if left, _ := os.ReadDir(filepath.Join(home, tempDir)); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
	if result.Digest != "" && !store.Has(result.Digest) {
		t.Fatal("an acknowledged snapshot is gone")
	}
	again, err := store.Snapshot(t.Context(), dir, Options{})
	must(t, err)
	for digest, want := range map[string]string{old.Digest: older, again.Digest: dir} {
		dst := filepath.Join(t.TempDir(), "out")
		must(t, store.Checkout(t.Context(), digest, dst))
		if diff := cmp.Diff(listing(t, want), listing(t, dst)); diff != "" {
			t.Fatal(diff)
		}
	}
}
