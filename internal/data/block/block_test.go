package block

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/muster-dev/muster/internal/data/backend"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// far counts what is asked of a backend.
type far struct {
	backend.Backend
	mu    sync.Mutex
	asked []string
	gate  func()
}

func (f *far) ReadAt(ctx context.Context, key string, offset int64, into []byte) error {
	f.mu.Lock()
	f.asked = append(f.asked, fmt.Sprintf("%s %d+%d", key, offset, len(into)))
	f.mu.Unlock()
	if f.gate != nil {
		f.gate()
	}
	return f.Backend.ReadAt(ctx, key, offset, into)
}

func (f *far) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.asked)
}

const key = "packs/ab/one"

func noise(n int) []byte {
	raw := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(raw)
	return raw
}

// world is an object far away, and blocks of it here.
func world(t *testing.T, size int, limit int64) (*Blocks, *far, []byte) {
	t.Helper()
	f := &far{Backend: &backend.Memory{}}
	content := noise(size)
	must(t, f.Put(t.Context(), key, content))
	b, err := Open(Options{Dir: filepath.Join(t.TempDir(), "blocks"), Limit: limit, Behind: f})
	must(t, err)
	return b, f, content
}

func (f *far) want(t *testing.T, b *Blocks, content []byte, offset, length int) {
	t.Helper()
	got := make([]byte, length)
	must(t, b.ReadAt(t.Context(), key, int64(offset), got))
	if !bytes.Equal(got, content[offset:offset+length]) {
		t.Fatalf("%d bytes at %d are other ones", length, offset)
	}
}

func TestEveryRangeIsRight(t *testing.T) {
	b, f, content := world(t, 5*Size+777, 0)
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		offset := r.IntN(len(content))
		f.want(t, b, content, offset, 1+r.IntN(len(content)-offset))
	}
	asked := f.count()
	f.want(t, b, content, 0, len(content))
	if f.count() != asked {
		t.Errorf("all was read, and more is asked for: %q", f.asked[asked:])
	}
	var short [10]byte
	if err := b.ReadAt(t.Context(), key, int64(len(content))-5, short[:]); !errors.Is(err, backend.ErrShort) {
		t.Errorf("past the end: %v", err)
	}
	if err := b.ReadAt(t.Context(), key, int64(len(content))+Size, short[:]); !errors.Is(err, backend.ErrShort) {
		t.Errorf("far past the end: %v", err)
	}
	if err := b.ReadAt(t.Context(), "packs/ab/two", 0, short[:]); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no object: %v", err)
	}
}

func TestNeighboursComeInOneRequest(t *testing.T) {
	b, f, content := world(t, 8*Size, 0)
	f.want(t, b, content, 100, 4096)
	f.want(t, b, content, 9000, 4096)
	if f.count() != 1 {
		t.Errorf("two small reads side by side asked %q", f.asked)
	}
	f.want(t, b, content, 10, 4*Size)
	if f.count() != 2 {
		t.Errorf("what was missing beside one another was asked for as %q", f.asked)
	}
}

func TestManyAtOnceFetchOnce(t *testing.T) {
	b, f, content := world(t, 2*Size, 0)
	held := make(chan struct{})
	f.gate = func() { <-held }
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			got := make([]byte, 100)
			if err := b.ReadAt(t.Context(), key, int64(i*100), got); err != nil || !bytes.Equal(got, content[i*100:i*100+100]) {
				t.Errorf("reader %d: %v", i, err)
			}
		})
	}
	close(held)
	all.Wait()
	if f.count() != 1 {
		t.Errorf("8 readers of one block asked %q", f.asked)
	}
}

func TestOnlyPacksAreKept(t *testing.T) {
	b, f, _ := world(t, 10, 0)
	must(t, f.Put(t.Context(), "leases/one", []byte("old")))
	got := make([]byte, 3)
	must(t, b.ReadAt(t.Context(), "leases/one", 0, got))
	must(t, f.Put(t.Context(), "leases/one", []byte("new")))
	must(t, b.ReadAt(t.Context(), "leases/one", 0, got))
	if string(got) != "new" {
		t.Errorf("what changes was kept: %q", got)
	}
}

// files are the blocks that are here.
func files(t *testing.T, b *Blocks) (paths []string, total int64) {
	t.Helper()
	must(t, filepath.WalkDir(b.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		paths, total = append(paths, path), total+info.Size()
		return err
	}))
	return paths, total
}

func TestItStaysBelowItsLimit(t *testing.T) {
	const limit = 10 * Size
	b, f, content := world(t, 64*Size, limit)
	for at := 0; at < len(content); at += Size {
		f.want(t, b, content, at, Size)
		if _, total := files(t, b); total > limit {
			t.Fatalf("%d bytes are kept of at most %d", total, limit)
		}
	}
	asked := f.count()
	f.want(t, b, content, len(content)-Size, Size)
	if f.count() != asked {
		t.Error("what was read last was removed first")
	}
	// The next process with less room begins by making it.
	small, err := Open(Options{Dir: b.dir, Limit: 3 * Size, Behind: f})
	must(t, err)
	if _, total := files(t, small); total > 3*Size {
		t.Errorf("%d bytes are kept of at most %d", total, 3*Size)
	}
}

func TestDoubtedAndDamagedBlocks(t *testing.T) {
	b, f, content := world(t, 3*Size, 0)
	f.want(t, b, content, 0, 3*Size)
	paths, _ := files(t, b)
	for _, path := range paths[:2] { // cut off, as after a loss of power: it is noticed here
		must(t, os.Truncate(path, 10))
	}
	f.want(t, b, content, 0, 3*Size)
	if !b.Doubt(key, Size+5, 1) {
		t.Error("a block that is here was not dropped")
	}
	if b.Doubt(key, Size+5, 1) {
		t.Error("a block that is not here was dropped")
	}
	f.want(t, b, content, 0, 3*Size)
}

func TestWithoutRoomItReadsAllTheSame(t *testing.T) {
	b, f, content := world(t, 3*Size, 0)
	must(t, os.RemoveAll(b.dir))
	must(t, os.WriteFile(b.dir, nil, 0o600)) // nothing can be written below it
	f.want(t, b, content, 5, 2*Size)
	f.want(t, b, content, 5, 2*Size)
}
