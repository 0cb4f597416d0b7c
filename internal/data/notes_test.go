package data

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestUnchangedIsNotReadAgain(t *testing.T) {
	p := newPlace(t)
	src := t.TempDir()
	m := map[string]string{"a": "1", "b/c": "2", "long": noise(5, 2<<20)}
	files(t, src, m)
	long := time.Now().Add(-time.Hour)
	first := put(t, p.Dataset, "main", Folder(src), AddOptions{})
	if r := put(t, p.Dataset, "main", Folder(src), AddOptions{}); !r.Unchanged || r.Commit.ID != first.Commit.ID {
		t.Errorf("%+v", r)
	}
	// Edited, with its size and time kept: the change of its inode shows it.
	files(t, src, map[string]string{"a": "x"})
	if err := os.Chtimes(filepath.Join(src, "a"), long, long); err != nil {
		t.Fatal(err)
	}
	put(t, p.Dataset, "main", Folder(src), AddOptions{})
	m["a"] = "x"
	same(t, "edited", m, held(t, p.Dataset, "main"))
}

// TestNotesAreTrusted, and Checksum looks all the same: notes that are made to lie
// show which of the two was done.
func TestNotesAreTrusted(t *testing.T) {
	p := newPlace(t)
	src := t.TempDir()
	files(t, src, map[string]string{"a": "1", "b": "2"})
	put(t, p.Dataset, "main", Folder(src), AddOptions{})
	files(t, src, map[string]string{"a": "x"})
	lie(t, p, src)
	if r := put(t, p.Dataset, "main", Folder(src), AddOptions{}); !r.Unchanged {
		t.Error("the file was read although nothing told that it changed")
	}
	lie(t, p, src)
	if r := put(t, p.Dataset, "main", Folder(src), AddOptions{Checksum: true}); r.Unchanged {
		t.Error("the edit was not found although its content was to be looked at")
	}
	same(t, "looked at", map[string]string{"a": "x", "b": "2"}, held(t, p.Dataset, "main"))
}

// lie writes notes as if every file had been like this long ago, with the content
// that the dataset has.
func lie(t *testing.T, p *place, src string) {
	t.Helper()
	s, err := p.Begin(t.Context(), "main", SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n := s.writeNotes(src, "")
	n.buf = append(n.buf[:0], notesMagic...)
	n.buf = append(n.buf, 0, 0, 0, 0, 0, 0, 0, 0x7f) // taken in the far future
	n.out.Reset(io.MultiWriter(n.file, n.sum))
	n.write()
	in, err := os.OpenRoot(src)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	for e, err := range s.trees.From(t.Context(), s.root, "") {
		if err != nil {
			t.Fatal(err)
		}
		it := item{entry: *e, file: filepath.Join(src, e.Path)}
		f, st, err := openFile(in, e.Path)
		if err != nil {
			t.Fatal(err)
		}
		it.stamp = st
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		n.add(&it)
	}
	n.keep()
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestDamagedNotesAreLeftOut(t *testing.T) {
	p := newPlace(t)
	src := t.TempDir()
	files(t, src, map[string]string{"a": "1"})
	put(t, p.Dataset, "main", Folder(src), AddOptions{})
	lie(t, p, src)
	files(t, src, map[string]string{"a": "x"})
	lie(t, p, src)
	all, err := filepath.Glob(filepath.Join(p.cache, "notes", "*"))
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	text, err := os.ReadFile(all[0])
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)/2] ^= 1
	if err := os.WriteFile(all[0], text, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := put(t, p.Dataset, "main", Folder(src), AddOptions{}); r.Unchanged {
		t.Error("damaged notes were trusted")
	}
}
