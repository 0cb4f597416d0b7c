//go:build fuse

package mount

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/data"
)

// mount mounts for the length of a test.
func (s *shop) mount(o Options) *Mount {
	s.Helper()
	o.Log = s.log.log()
	if o.Point == "" {
		o.Point = filepath.Join(s.TempDir(), "a point") // a space, for the table of mounts
		must(s, os.Mkdir(o.Point, 0o755))
	}
	m, err := Open(s.Context(), o)
	must(s, err)
	s.Cleanup(func() {
		_, err := m.Close()
		must(s, err)
		if mounted, err := Mounted(m.Point()); err != nil || mounted {
			s.Errorf("it is mounted still: %v %v", mounted, err)
		}
	})
	return m
}

// seen is a tree as programs see it: for each path its rights and size, its link or
// the hash of its bytes.
func seen(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil || d.IsDir() {
			all[name] = "folder"
			return err
		}
		if d.Type() == fs.ModeSymlink {
			target, err := os.Readlink(path)
			all[name] = "-> " + target
			return err
		}
		content, err := os.ReadFile(path)
		all[name] = fmt.Sprintf("%s %d %x", info.Mode()&^0o222, info.Size(), rand.NewPCG(hash(content), 1).Uint64())
		return err
	}))
	return all
}

func hash(content []byte) (h uint64) {
	for _, c := range content {
		h = (h ^ uint64(c)) * 0x100000001b3 // FNV-1a
	}
	return h
}

func TestAMountHasWhatACheckoutHas(t *testing.T) {
	s := newShop(t)
	src, out := t.TempDir(), t.TempDir()
	plant(t, src)
	v := s.put(data.Folder(src))
	_, err := v.Checkout(t.Context(), out, data.CheckoutOptions{ReadOnly: true})
	must(t, err)
	m := s.mount(Options{View: v})
	want := seen(t, out)
	if len(want) < 400 {
		t.Fatalf("%d paths", len(want))
	}
	if diff := cmp.Diff(want, seen(t, m.Point())); diff != "" {
		t.Fatal(diff)
	}
	before := s.bytes.count()
	var all sync.WaitGroup // by many at once, out of the kernel's memory
	for range 4 {
		all.Go(func() {
			if diff := cmp.Diff(want, seen(t, m.Point())); diff != "" {
				t.Error(diff)
			}
		})
	}
	all.Wait()
	if again := s.bytes.count() - before; again != 0 {
		t.Errorf("what was read before was asked of the store %d times", again)
	}
}

func TestWhatProgramsAreTold(t *testing.T) {
	s := newShop(t)
	src := t.TempDir()
	plant(t, src)
	v := s.put(data.Folder(src))
	m := s.mount(Options{View: v})
	at := func(name string) string { return filepath.Join(m.Point(), name) }
	for what, err := range map[string]error{
		"making a file":   os.WriteFile(at("new"), nil, 0o644),
		"writing":         func() error { _, err := os.OpenFile(at("text"), os.O_RDWR, 0); return err }(),
		"removing":        os.Remove(at("text")),
		"making a folder": os.Mkdir(at("new"), 0o755),
		"renaming":        os.Rename(at("text"), at("text2")),
		"other rights":    os.Chmod(at("text"), 0o777),
		"cutting":         os.Truncate(at("text"), 0),
	} {
		if !errors.Is(err, unix.EROFS) {
			t.Errorf("%s: %v", what, err)
		}
	}
	info, err := os.Stat(at("text"))
	if err != nil || !info.ModTime().Equal(v.Commit().Time.Truncate(time.Nanosecond)) {
		t.Errorf("%v, and the commit was at %s, %v", info.ModTime(), v.Commit().Time, err)
	}
	before := s.bytes.count()
	for range 5 {
		if _, err := os.Stat(at("no such file")); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	}
	if asked := s.bytes.count() - before; asked > 1 {
		t.Errorf("what is not there was looked for %d times", asked)
	}
	var st unix.Statfs_t
	must(t, unix.Statfs(m.Point(), &st))
	if st.Files != uint64(m.Usage().Files) || st.Blocks*4096 < uint64(m.Usage().Bytes) || st.Bfree != 0 {
		t.Errorf("%+v of %+v", st, m.Usage())
	}
	// By a program of its own: a fault is no system call, so Go's runtime does not know
	// that the goroutine waits, and nothing collects garbage, the server among it, until
	// the page is there.
	said, err := exec.CommandContext(t.Context(), os.Args[0], "map", at("long")).CombinedOutput()
	if want := fmt.Sprint(hash(noise(2, 9<<20))); string(said) != want || err != nil {
		t.Errorf("mapped into memory it is another one: %s, want %s, %v", said, want, err)
	}
}

// TestMain is a program that prints the hash of a file it has mapped into memory,
// where it is called as one.
func TestMain(m *testing.M) {
	if len(os.Args) != 3 || os.Args[1] != "map" {
		os.Exit(m.Run())
	}
	sum, err := hashMapped(os.Args[2])
	if err != nil {
		fmt.Print(err)
		os.Exit(1)
	}
	fmt.Print(sum)
}

func hashMapped(path string) (uint64, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	mapped, err := unix.Mmap(int(file.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return 0, err
	}
	return hash(mapped), errors.Join(unix.Munmap(mapped), file.Close())
}

func TestDamageIsAnErrorToPrograms(t *testing.T) {
	s := newShop(t)
	src := t.TempDir()
	plant(t, src)
	m := s.mount(Options{View: s.put(data.Folder(src)), Patience: time.Millisecond})
	s.bytes.set(nil, func(_ string, _ int64, into []byte) {
		if len(into) > 400_000 {
			into[7] ^= 1
		}
	})
	if got, err := os.ReadFile(filepath.Join(m.Point(), "long")); !errors.Is(err, unix.EIO) || len(got) > 0 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if !strings.Contains(s.log.String(), "is damaged") {
		t.Errorf("the log says %q", s.log.String())
	}
	if got, err := os.ReadFile(filepath.Join(m.Point(), "one chunk")); err != nil || hash(got) != hash(noise(1, 300_000)) {
		t.Error(err)
	}
	s.bytes.set(nil, nil)
	if got, err := os.ReadFile(filepath.Join(m.Point(), "long")); err != nil || hash(got) != hash(noise(2, 9<<20)) {
		t.Errorf("once it is mended: %v", err)
	}
}

func TestUnmountedFromOutsideItEnds(t *testing.T) {
	s := newShop(t)
	v := s.put(data.Contents([]data.Content{{Path: "a", Bytes: []byte("a")}}))
	m := s.mount(Options{View: v})
	must(t, Unmount(m.Point(), false))
	wait(t, m)
	again := s.mount(Options{View: v, Point: m.Point()})
	open, err := os.Open(filepath.Join(again.Point(), "a"))
	must(t, err)
	if err := Unmount(again.Point(), false); !errors.Is(err, unix.EBUSY) {
		t.Errorf("with a file that is open: %v", err)
	}
	if held, err := again.Close(); !held || err != nil {
		t.Error(held, err)
	}
	if got, err := io.ReadAll(open); string(got) != "a" || err != nil {
		t.Errorf("what was open: %q %v", got, err)
	}
	must(t, open.Close())
	wait(t, again)
	if err := Unmount(again.Point(), false); !errors.Is(err, unix.EINVAL) {
		t.Errorf("nothing: %v", err)
	}
}

// wait waits until a mount has ended.
func wait(t testing.TB, m *Mount) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	select {
	case <-m.Done():
	case <-ctx.Done():
		t.Fatal("it is served still")
	}
}

// crowd is a folder of n files.
func (s *shop) crowd(n int) *data.View {
	files := make([]data.Content, n)
	for i := range files {
		files[i] = data.Content{Path: fmt.Sprintf("all/%07d.png", i)}
	}
	return s.put(data.Contents(files))
}

func TestAHugeFolder(t *testing.T) {
	const n = 1_000_000
	s := newShop(t)
	m := s.mount(Options{View: s.crowd(n)})
	dir, err := os.Open(filepath.Join(m.Point(), "all"))
	must(t, err)
	defer func() { _ = dir.Close() }()
	names := map[string]bool{}
	for {
		some, err := dir.Readdirnames(1000)
		for _, name := range some {
			names[name] = true
		}
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
	}
	if len(names) != n || !names["0000000.png"] || !names["0999999.png"] {
		t.Errorf("%d names", len(names))
	}
	before := s.bytes.count()
	if _, err := os.Stat(filepath.Join(m.Point(), "all", "0123456.png")); err != nil {
		t.Error(err)
	}
	if asked := s.bytes.count() - before; asked > 4 {
		t.Errorf("looking at one file of it read the store %d times", asked)
	}
}

// BenchmarkAMillionInOneFolder lists a folder of a million files.
func BenchmarkAMillionInOneFolder(b *testing.B) {
	s := newShop(b)
	v := s.crowd(1_000_000)
	for b.Loop() {
		m := s.mount(Options{View: v})
		dir, err := os.Open(filepath.Join(m.Point(), "all"))
		must(b, err)
		names, err := dir.Readdirnames(-1)
		must(b, errors.Join(err, dir.Close()))
		if len(names) != 1_000_000 {
			b.Fatal(len(names))
		}
		_, err = m.Close()
		must(b, err)
	}
}
