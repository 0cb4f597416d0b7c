package mount

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/muster-dev/muster/internal/data"
)

// open is a file system that no kernel asks.
func (s *shop) open(v *data.View, path string) *system {
	s.Helper()
	f, err := newSystem(s.Context(), Options{View: v, Path: path, Memory: 8 << 20, Patience: time.Second, Log: s.log.log()})
	must(s, err)
	s.Cleanup(f.end)
	return f
}

// walk goes down a path and is the number of what is there; 0: nothing.
func (s *shop) walk(f *system, path string) (uint64, fuse.EntryOut) {
	s.Helper()
	at, out := uint64(fuse.FUSE_ROOT_ID), fuse.EntryOut{}
	for _, name := range strings.Split(path, "/") {
		if status := f.Lookup(nil, &fuse.InHeader{NodeId: at}, name, &out); status != fuse.OK {
			s.Fatalf("looking up %q in %q: %v", name, path, status)
		}
		if at = out.NodeId; at == 0 {
			break
		}
	}
	return at, out
}

// listing is an open folder, listed by answers of so many bytes.
type listing struct {
	*system
	id, fh uint64
	answer int
	plus   bool
}

func (s *shop) listing(f *system, id uint64, answer int, plus bool) *listing {
	s.Helper()
	var opened fuse.OpenOut
	if status := f.OpenDir(nil, &fuse.OpenIn{InHeader: fuse.InHeader{NodeId: id}}, &opened); status != fuse.OK {
		s.Fatal(status)
	}
	return &listing{f, id, opened.Fh, answer, plus}
}

// from is all names from an offset on, each with the offset behind it.
func (l *listing) from(t testing.TB, offset uint64) (names []string, offsets []uint64) {
	t.Helper()
	for {
		list := fuse.NewDirEntryList(make([]byte, l.answer), offset)
		in := &fuse.ReadIn{InHeader: fuse.InHeader{NodeId: l.id}, Fh: l.fh, Offset: offset}
		var status fuse.Status
		var entries []fuse.DirEntry
		var err error
		if l.plus {
			status = l.ReadDirPlus(nil, in, list)
			entries, _, err = fuse.ParseDirLookupEntries(list.Bytes())
		} else {
			status = l.ReadDir(nil, in, list)
			entries, err = fuse.ParseDirEntries(list.Bytes())
		}
		if status != fuse.OK || err != nil {
			t.Fatal(status, err)
		}
		if len(entries) == 0 {
			return names, offsets
		}
		for _, e := range entries {
			names, offsets = append(names, e.Name), append(offsets, e.Off)
			offset = e.Off
		}
	}
}

func TestFoldersAreListedWholly(t *testing.T) {
	s := newShop(t)
	var files []data.Content
	want := []string{".", ".."}
	for i := range 5000 {
		name := fmt.Sprintf("f%05d", i)
		if i%7 == 0 {
			files = append(files, data.Content{Path: "all/" + name + "/x"}, data.Content{Path: "all/" + name + "/y"})
		} else {
			files = append(files, data.Content{Path: "all/" + name, Bytes: []byte(name)})
		}
		want = append(want, name)
	}
	files = append(files, data.Content{Path: "all-too-near"}, data.Content{Path: "all0"})
	f := s.open(s.put(data.Contents(files)), "")
	id, _ := s.walk(f, "all")
	for _, answer := range []int{200, 4096, 1 << 16} {
		for _, plus := range []bool{false, true} {
			all := s.listing(f, id, answer, plus)
			got, offsets := all.from(t, 0)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("by %d bytes, plus %v: %s", answer, plus, diff)
			}
			for _, from := range []int{3000, 0, 1, 2, 3, 1024, 1025, 1026, 1027, 4999, len(want) - 1} { // as seekdir does
				for _, l := range []*listing{all, s.listing(f, id, answer, plus)} {
					got, _ := l.from(t, offsets[from])
					if diff := cmp.Diff(want[from+1:], append([]string{}, got...)); diff != "" {
						t.Fatalf("from name %d: %s", from, diff)
					}
				}
			}
			f.ReleaseDir(&fuse.ReleaseIn{Fh: all.fh})
		}
	}
	root, _ := s.listing(f, fuse.FUSE_ROOT_ID, 4096, true).from(t, 0)
	if diff := cmp.Diff([]string{".", "..", "all-too-near", "all", "all0"}, root); diff != "" {
		t.Error(diff)
	}
}

func TestLookup(t *testing.T) {
	s := newShop(t)
	dir := t.TempDir()
	plant(t, dir)
	f := s.open(s.put(data.Folder(dir)), "")
	for path, want := range map[string]struct {
		mode uint32
		size uint64
	}{
		"a": {syscall.S_IFDIR | 0o555, 4096}, "a/b": {syscall.S_IFREG | 0o444, 4}, "a-b": {syscall.S_IFREG | 0o444, 7},
		"run.sh": {syscall.S_IFREG | 0o555, 15}, "empty": {syscall.S_IFREG | 0o444, 0}, "many/link": {syscall.S_IFLNK | 0o777, 6},
		"a/c/d": {syscall.S_IFDIR | 0o555, 4096}, "long": {syscall.S_IFREG | 0o444, 9 << 20},
		"nothing": {}, "a/bb": {}, "a/b/c": {}, "lon": {}, "a-": {}, "many/9": {}, strings.Repeat("n", 256): {},
	} {
		_, got := s.walk(f, path)
		if got.Mode != want.mode || got.Size != want.size {
			t.Errorf("%q is of mode %o with %d bytes", path, got.Mode, got.Size)
		}
		if got.EntryTimeout() < time.Hour {
			t.Errorf("%q may be remembered for %s", path, got.EntryTimeout())
		}
	}
	id, _ := s.walk(f, "many/link")
	if target, status := f.Readlink(nil, &fuse.InHeader{NodeId: id}); string(target) != "../a/b" || status != fuse.OK {
		t.Errorf("%q %v", target, status)
	}
	f.Forget(id, 1)
	f.Forget(id, 1)
	if _, status := f.Readlink(nil, &fuse.InHeader{NodeId: id}); status != fuse.Status(syscall.ESTALE) {
		t.Errorf("what was forgotten as often as it was given: %v", status)
	}
}

// handle opens a file.
func (s *shop) handle(f *system, path string) uint64 {
	s.Helper()
	id, _ := s.walk(f, path)
	var opened fuse.OpenOut
	if status := f.Open(nil, &fuse.OpenIn{InHeader: fuse.InHeader{NodeId: id}}, &opened); status != fuse.OK {
		s.Fatalf("opening %q: %v", path, status)
	}
	return opened.Fh
}

func read(f *system, fh uint64, offset int64, n int) ([]byte, fuse.Status) {
	r, status := f.Read(nil, &fuse.ReadIn{Fh: fh, Offset: uint64(offset), Size: uint32(n)}, nil)
	if status != fuse.OK {
		return nil, status
	}
	return r.Bytes(nil)
}

func TestAnyRangeOfAFile(t *testing.T) {
	s := newShop(t)
	dir := t.TempDir()
	plant(t, dir)
	f := s.open(s.put(data.Folder(dir)), "")
	r := rand.New(rand.NewPCG(3, 4))
	for _, name := range []string{"long", "text", "one chunk", "empty", "a/b"} {
		want, err := os.ReadFile(filepath.Join(dir, name))
		must(t, err)
		fh := s.handle(f, name)
		for range 60 {
			offset, n := r.IntN(len(want)+10), r.IntN(3<<20)
			got, status := read(f, fh, int64(offset), n)
			if status != fuse.OK || string(got) != string(want[min(offset, len(want)):min(offset+n, len(want))]) {
				t.Fatalf("%s: %d bytes at %d: %v, %d other ones", name, n, offset, status, len(got))
			}
		}
		f.Release(nil, &fuse.ReleaseIn{Fh: fh})
		if _, status := read(f, fh, 0, 1); status != fuse.EBADF {
			t.Errorf("%s was closed: %v", name, status)
		}
	}
	id, _ := s.walk(f, "a/b")
	if status := f.Open(nil, &fuse.OpenIn{InHeader: fuse.InHeader{NodeId: id}, Flags: syscall.O_RDWR}, &fuse.OpenOut{}); status != fuse.EROFS {
		t.Errorf("to write: %v", status)
	}
}

func TestGoingOnIsReadAhead(t *testing.T) {
	s := newShop(t)
	v := s.put(data.Stream("long", bytes.NewReader(noise(5, 24<<20))))
	f := s.open(v, "")
	fh := s.handle(f, "long")
	open := f.files[fh]
	must(t, open.learn(t.Context(), v))
	read1 := func(piece int) {
		if _, status := read(f, fh, open.starts[piece], 1); status != fuse.OK {
			t.Fatal(status)
		}
	}
	read1(0)
	read1(1)
	read1(2)
	f.chunks.readers.Wait()
	if got := s.bytes.count(); got < 6 {
		t.Errorf("after three pieces one behind the other there were %d reads", got)
	}
	last := len(open.pieces) - 1
	before := s.bytes.count()
	read1(last) // a jump
	read1(last - 4)
	f.chunks.readers.Wait()
	if got := s.bytes.count() - before; got > 2 {
		t.Errorf("two reads here and there were %d of the store", got)
	}
	if f.chunks.bytes > f.chunks.most {
		t.Errorf("%d bytes are kept of at most %d", f.chunks.bytes, f.chunks.most)
	}
}

func TestDamageIsAnError(t *testing.T) {
	s := newShop(t)
	dir := t.TempDir()
	plant(t, dir)
	f := s.open(s.put(data.Folder(dir)), "")
	good, bad := s.handle(f, "one chunk"), s.handle(f, "long")
	s.bytes.set(nil, func(_ string, _ int64, into []byte) {
		if len(into) > 400_000 { // chunks of the long file
			into[len(into)/2] ^= 1
		}
	})
	for range 2 {
		if got, status := read(f, bad, 0, 4096); status != fuse.EIO {
			t.Fatalf("a damaged chunk: %d bytes, %v", len(got), status)
		}
	}
	if said := s.log.String(); !strings.Contains(said, "path=long") || !strings.Contains(said, "is damaged") || !strings.Contains(said, "muster data verify") {
		t.Errorf("the log says %q", said)
	}
	if _, status := read(f, good, 0, 4096); status != fuse.OK {
		t.Errorf("another file: %v", status)
	}
	s.bytes.set(nil, nil)
	if _, status := read(f, bad, 0, 4096); status != fuse.OK {
		t.Errorf("once it is mended: %v", status)
	}
	s.bytes.set(func(key string) error { return fmt.Errorf("%s: %w", key, fs.ErrNotExist) }, nil)
	if _, status := read(f, bad, 8<<20, 4096); status != fuse.EIO {
		t.Errorf("a pack that is gone: %v", status)
	}
}

func TestWhatPassesIsTriedAgain(t *testing.T) {
	s := newShop(t)
	f := s.open(s.put(data.Contents([]data.Content{{Path: "a", Bytes: noise(1, 1000)}, {Path: "b", Bytes: noise(2, 1000)}})), "")
	left := 3
	s.bytes.set(func(string) error {
		if left--; left >= 0 {
			return errors.New("503 slow down")
		}
		return nil
	}, nil)
	fh := s.handle(f, "a")
	left = 3
	if got, status := read(f, fh, 0, 1000); status != fuse.OK || len(got) != 1000 {
		t.Errorf("%d bytes, %v", len(got), status)
	}
	left = 1 << 30
	f.patience = 60 * time.Millisecond
	if _, status := read(f, s.handle(f, "b"), 0, 1000); status != fuse.EIO || !strings.Contains(s.log.String(), "503 slow down") {
		t.Errorf("a store that is away: %v; the log says %q", status, s.log.String())
	}
}

func TestWhoIsInterruptedLeaves(t *testing.T) {
	s := newShop(t)
	f := s.open(s.put(data.Contents([]data.Content{{Path: "a", Bytes: noise(1, 1000)}})), "")
	fh := s.handle(f, "a")
	held := make(chan struct{})
	s.bytes.set(func(string) error { <-held; return nil }, nil)
	signal := make(chan struct{})
	close(signal)
	if _, status := f.Read(signal, &fuse.ReadIn{Fh: fh, Size: 1000}, nil); status != fuse.EINTR {
		t.Errorf("%v", status)
	}
	close(held)
	if got, status := read(f, fh, 0, 1000); status != fuse.OK || len(got) != 1000 {
		t.Errorf("then: %v", status)
	}
}

func TestParts(t *testing.T) {
	s := newShop(t)
	dir := t.TempDir()
	plant(t, dir)
	v := s.put(data.Folder(dir))
	root := func(path string) []string {
		names, _ := s.listing(s.open(v, path), fuse.FUSE_ROOT_ID, 4096, true).from(t, 0)
		return names[2:]
	}
	for path, want := range map[string][]string{
		"a": {"b", "c"}, "/a/c/": {"d"}, "a/b": {"b"}, "long": {"long"}, "many/1/001": {"001"},
	} {
		if diff := cmp.Diff(want, root(path)); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
	f := s.open(v, "long")
	if id, _ := s.walk(f, "text"); id != 0 {
		t.Error("beside a file that was asked for others are shown")
	}
	if got, status := read(f, s.handle(f, "long"), 0, 10); status != fuse.OK || len(got) != 10 {
		t.Error(got, status)
	}
	for path, want := range map[string]string{"nothing": "not in commit", "many/*": "is a pattern"} {
		if _, err := newSystem(t.Context(), Options{View: v, Path: path, Log: s.log.log()}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestNumbers(t *testing.T) {
	n := newNodes("")
	id := n.give("a")
	if again := n.give("a"); again != id || number("a") != id {
		t.Errorf("%d and %d", id, again)
	}
	n.known[number("b")] = &node{path: "of the same hash", lookups: 1}
	other := n.give("b")
	if path, ok := n.path(other); path != "b" || !ok || other == number("b") {
		t.Errorf("%d is %q", other, path)
	}
	n.forget(id, 1)
	if _, ok := n.path(id); !ok {
		t.Error("it was given twice and forgotten once")
	}
	n.forget(id, 7)
	n.forget(id, 7)
	n.forget(fuse.FUSE_ROOT_ID, 1)
	if _, ok := n.path(id); ok {
		t.Error("it was forgotten")
	}
	if _, ok := n.path(fuse.FUSE_ROOT_ID); !ok {
		t.Error("the root was forgotten")
	}
}

func TestTableOfMounts(t *testing.T) {
	table := `25 30 0:23 / /proc rw shared:14 - proc proc rw
90 25 0:70 / /home/m/mounts/a/files ro,nosuid - fuse.muster muster-data-1 ro,user_id=0
91 25 0:71 / /home/m/mounts/b\040c/files ro,nosuid shared:2 - fuse.muster muster-data-2 ro
92 25 0:72 / /home/m/mounts/d/files ro - fuse.sshfs x ro
93 25 0:73 / /home/m/mountsx/files ro - fuse.muster x ro
94 90 0:74 / /home/m/mounts/a/files ro - fuse.muster x ro
`
	want := []string{"/home/m/mounts/a/files", "/home/m/mounts/b c/files", "/home/m/mounts/a/files"}
	if diff := cmp.Diff(want, points([]byte(table), "/home/m/mounts")); diff != "" {
		t.Error(diff)
	}
}
