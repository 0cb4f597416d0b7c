package backend_test

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/backend/contract"
	"github.com/muster-dev/muster/internal/data/backend/faulty"
)

func TestMemory(t *testing.T) {
	contract.Run(t, &backend.Memory{})
	contract.RunStreams(t, &backend.Memory{})
}

func TestFolder(t *testing.T) {
	dir := t.TempDir()
	b, err := backend.OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	contract.Run(t, b)
	contract.RunStreams(t, b)
	contract.RunStarts(t, b)
	entries, err := os.ReadDir(filepath.Join(dir, ".incoming"))
	if err != nil || len(entries) > 0 {
		t.Errorf("what was being written is still there: %v %v", entries, err)
	}
}

// TestFolderGetsOn: while an object waits for another, its bytes are written already,
// and are gone where it waits in vain.
func TestFolderGetsOn(t *testing.T) {
	dir := t.TempDir()
	b, err := backend.OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	written := func() []os.DirEntry {
		entries, err := os.ReadDir(filepath.Join(dir, ".incoming"))
		if err != nil {
			t.Fatal(err)
		}
		return entries
	}
	failed := errors.New("in vain")
	err = b.PutAfter(t.Context(), "a/1", []byte("content"), func() error {
		for t.Context().Err() == nil {
			for _, e := range written() {
				if info, err := e.Info(); err == nil && info.Size() == int64(len("content")) {
					return failed
				}
			}
		}
		return t.Context().Err()
	})
	if !errors.Is(err, failed) || len(written()) > 0 {
		t.Errorf("%v, and left: %v", err, written())
	}
	started := b.Start("a/2")
	started.Grow([]byte("con"))
	for size := int64(0); size < 3 && t.Context().Err() == nil; {
		for _, e := range written() {
			if info, err := e.Info(); err == nil {
				size = info.Size()
			}
		}
	}
	if started.Drop(); len(written()) > 0 {
		t.Errorf("left of what was given up: %v", written())
	}
	blocked := filepath.Join(dir, "b")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := b.Put(t.Context(), "b/1", []byte("x")); err == nil || len(written()) > 0 {
		t.Errorf("below a file: %v, and left: %v", err, written())
	}
	started = b.Start("b/1")
	started.Grow([]byte("x"))
	if err := started.Finish(t.Context(), []byte("xy")); err == nil || len(written()) > 0 {
		t.Errorf("what began below a file: %v, and left: %v", err, written())
	}
	if err := os.Remove(filepath.Join(dir, ".incoming")); err != nil {
		t.Fatal(err)
	}
	started = b.Start("a/3")
	started.Grow([]byte("x"))
	if err := started.Finish(t.Context(), []byte("xy")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nowhere to write: %v", err)
	}
}

// TestFaulty: without a fault it is what it stands before.
func TestFaulty(t *testing.T) {
	contract.Run(t, &faulty.Backend{Inner: &backend.Memory{}, Script: &faulty.Script{}})
}

func TestFaultsHappen(t *testing.T) {
	for _, fault := range faulty.Faults() {
		t.Run(fault.String(), func(t *testing.T) {
			inner := &backend.Memory{}
			b := &faulty.Backend{Inner: inner, Script: &faulty.Script{At: 2, Fault: fault}}
			for i, key := range []string{"a/1", "a/2", "a/3"} {
				err := b.Put(t.Context(), key, []byte("x"))
				dead := fault == faulty.DieBefore || fault == faulty.DieAfter
				if want := i == 1 || i == 2 && dead; (err != nil) != want {
					t.Errorf("write %d: %v", i+1, err)
				}
			}
			_, err := inner.Stat(t.Context(), "a/2")
			if there := fault == faulty.DieAfter || fault == faulty.RefuseAfter; there != (err == nil) {
				t.Errorf("the write that failed: %v", err)
			}
		})
	}
}

func TestOpenFolderRemovesWhatWritersLeft(t *testing.T) {
	dir := t.TempDir()
	if _, err := backend.OpenFolder(dir); err != nil {
		t.Fatal(err)
	}
	old, young := filepath.Join(dir, ".incoming", "1"), filepath.Join(dir, ".incoming", "2")
	for _, path := range []string{old, young} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	long := time.Now().Add(-48 * time.Hour)
	if err := os.Chtimes(old, long, long); err != nil {
		t.Fatal(err)
	}
	if _, err := backend.OpenFolder(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an old one is still there: %v", err)
	}
	if _, err := os.Stat(young); err != nil {
		t.Errorf("one that may be being written is gone: %v", err)
	}
}

// TestLongObjects: objects that are written past the page cache are there to the
// last byte, wherever in memory they lay and whatever is left behind whole blocks.
func TestLongObjects(t *testing.T) {
	f, err := backend.OpenFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	const long, block = 8 << 20, 4096
	room := make([]byte, long+2*block)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(room)
	for name, content := range map[string][]byte{
		"whole blocks":     room[:long],
		"a byte more":      room[:long+1],
		"a byte less":      room[:long+block-1],
		"begins elsewhere": room[3 : long+3+block],
	} {
		t.Run(name, func(t *testing.T) {
			key := "packs/" + strings.ReplaceAll(name, " ", "-")
			if err := f.Put(t.Context(), key, content); err != nil {
				t.Fatal(err)
			}
			info, err := f.Stat(t.Context(), key)
			if err != nil || info.Size != int64(len(content)) {
				t.Fatalf("%d bytes instead of %d, %v", info.Size, len(content), err)
			}
			got := make([]byte, len(content))
			if err := f.ReadAt(t.Context(), key, 0, got); err != nil || !bytes.Equal(got, content) {
				t.Errorf("other bytes than were put, %v", err)
			}
		})
	}
}
