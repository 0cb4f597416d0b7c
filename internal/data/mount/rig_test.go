package mount

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/ref"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// troubled is a backend that fails, or changes what it reads, as it is told.
type troubled struct {
	backend.Backend
	mu     sync.Mutex
	reads  int
	refuse func(key string) error
	change func(key string, offset int64, into []byte)
}

// ReadAt implements [backend.Backend].
func (b *troubled) ReadAt(ctx context.Context, key string, offset int64, into []byte) error {
	b.mu.Lock()
	b.reads++
	refuse, change := b.refuse, b.change
	b.mu.Unlock()
	if refuse != nil {
		if err := refuse(key); err != nil {
			return err
		}
	}
	err := b.Backend.ReadAt(ctx, key, offset, into)
	if err == nil && change != nil {
		change(key, offset, into)
	}
	return err
}

func (b *troubled) set(refuse func(string) error, change func(string, int64, []byte)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refuse, b.change = refuse, change
}

func (b *troubled) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reads
}

// shop is a dataset.
type shop struct {
	testing.TB
	bytes *troubled
	set   *data.Dataset
	log   heard
}

func newShop(t testing.TB) *shop {
	t.Helper()
	s := &shop{TB: t, bytes: &troubled{Backend: &backend.Memory{}}}
	s.set = s.reopen(t)
	return s
}

// reopen is the same dataset to somebody who has read nothing of it. Heads are not
// kept: commits are named.
func (s *shop) reopen(t testing.TB) *data.Dataset {
	t.Helper()
	store, err := data.Open(t.Context(), data.Options{Backend: s.bytes, Workers: 2})
	must(t, err)
	t.Cleanup(func() { must(t, store.Close()) })
	return store.Dataset(&ref.Memory{})
}

// put is what a commit of a source holds, to somebody who has read nothing of it.
func (s *shop) put(source data.Source) *data.View {
	s.Helper()
	r, err := s.set.Put(s.Context(), "main", source, data.PutOptions{})
	must(s, err)
	v, err := s.reopen(s).At(s.Context(), r.Commit.ID.String())
	must(s, err)
	return v
}

// heard is a log.
type heard struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (h *heard) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.Write(p)
}

func (h *heard) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.String()
}

func (h *heard) log() *slog.Logger { return slog.New(slog.NewTextHandler(h, nil)) }

// noise are bytes that no compression makes fewer.
func noise(seed uint64, n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16)}).Read(b)
	return b
}

// plant writes a tree with what trees have: names on both sides of a slash, links,
// empty and executable files, long ones.
func plant(t testing.TB, dir string) {
	t.Helper()
	files := map[string][]byte{
		"a/b": []byte("in a"), "a-b": []byte("between"), "a0": []byte("behind"), "a/c/d/e": []byte("deep"),
		"empty": nil, "run.sh": []byte("#!/bin/sh\ntrue\n"), "one chunk": noise(1, 300_000), "long": noise(2, 9<<20),
		"text":                   bytes.Repeat([]byte("all work and no play\n"), 200_000),
		strings.Repeat("n", 255): []byte("a long name"), "ümlaut/ß": []byte("ß"), "a b\nc": []byte("white"),
	}
	for i := range 400 {
		files[fmt.Sprintf("many/%d/%03d", i%3, i)] = noise(uint64(100+i), i*37)
	}
	for name, content := range files {
		path := filepath.Join(dir, name)
		mode := fs.FileMode(0o644)
		if strings.HasSuffix(name, ".sh") {
			mode = 0o755
		}
		must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, mode)))
	}
	must(t, errors.Join(os.Symlink("../a/b", filepath.Join(dir, "many/link")), os.Symlink("nowhere", filepath.Join(dir, "dangling"))))
}
