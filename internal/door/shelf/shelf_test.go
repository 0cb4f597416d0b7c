package shelf

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestFolder(t *testing.T) {
	dir := t.TempDir()
	s, err := OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	keepsObjects(t, s)
	entries, err := os.ReadDir(filepath.Join(dir, tempDir))
	if err != nil || len(entries) > 0 {
		t.Errorf("what was being written is still there: %v %v", entries, err)
	}
}

func TestOpenFolderRemovesWhatWritersLeft(t *testing.T) {
	dir := t.TempDir()
	if _, err := OpenFolder(dir); err != nil {
		t.Fatal(err)
	}
	old, young := filepath.Join(dir, tempDir, "object-1"), filepath.Join(dir, tempDir, "object-2")
	for _, path := range []string{old, young} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	long := time.Now().Add(-2 * abandonedAfter)
	if err := os.Chtimes(old, long, long); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFolder(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an old one is still there: %v", err)
	}
	if _, err := os.Stat(young); err != nil {
		t.Errorf("one that may be being written is gone: %v", err)
	}
}

// keepsObjects is what every shelf does.
func keepsObjects(t *testing.T, s Shelf) {
	t.Helper()
	ctx := t.Context()
	put := func(key, text string) {
		t.Helper()
		if err := s.Put(ctx, key, int64(len(text)), strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	want := func(key, text string) {
		t.Helper()
		in, err := s.Get(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(in)
		if err = errors.Join(err, in.Close()); err != nil || string(data) != text {
			t.Errorf("%s: %q, want %q (%v)", key, data, text, err)
		}
	}
	before := time.Now()
	put("code/ada/trees/1", "one")
	put("code/ada/blobs/ab/abc", strings.Repeat("x", 1<<20))
	put("code/ada-2/trees/1", "")
	put("code/ada/trees/1", "two") // the last one stays
	want("code/ada/trees/1", "two")
	want("code/ada/blobs/ab/abc", strings.Repeat("x", 1<<20))
	want("code/ada-2/trees/1", "")
	info, err := s.Stat(ctx, "code/ada/blobs/ab/abc")
	if err != nil || info.Size != 1<<20 || info.Stored.Before(before.Add(-time.Minute)) || info.Stored.After(time.Now().Add(time.Minute)) {
		t.Errorf("%+v %v", info, err)
	}
	listed := func(prefix string, want ...string) {
		t.Helper()
		var got []string
		err := s.List(ctx, prefix, func(i Info) error {
			if i.Stored.IsZero() {
				t.Errorf("%s: nobody knows since when it is there", i.Key)
			}
			got = append(got, i.Key)
			return nil
		})
		slices.Sort(got)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("below %s: %v, want %v (%v)", prefix, got, want, err)
		}
	}
	listed("code/ada/", "code/ada/blobs/ab/abc", "code/ada/trees/1")
	listed("code/nobody/")
	stop := errors.New("enough")
	if err := s.List(ctx, "code/", func(Info) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("listing goes on: %v", err)
	}
	neverSeesAPart(t, s)
	for range 2 { // the second finds nothing, which is fine
		if err := s.Delete(ctx, "code/ada/trees/1"); err != nil {
			t.Error(err)
		}
	}
	gone(t, s, "code/ada/trees/1")
	listed("code/ada/", "code/ada/blobs/ab/abc")
	for _, key := range []string{"", "/etc/passwd", "../x", "a/../../x", "a//b", ".incoming/x", "a b", "a\x00"} {
		if err := s.Put(ctx, key, 0, strings.NewReader("")); err == nil {
			t.Errorf("%q was taken for a key", key)
		}
		if _, err := s.Get(ctx, key); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q was taken for a key: %v", key, err)
		}
	}
}

func gone(t *testing.T, s Shelf, key string) {
	t.Helper()
	if _, err := s.Get(t.Context(), key); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reading %s, which is not there: %v", key, err)
	}
	if _, err := s.Stat(t.Context(), key); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("looking for %s, which is not there: %v", key, err)
	}
}

// neverSeesAPart breaks off writing in every way.
func neverSeesAPart(t *testing.T, s Shelf) {
	t.Helper()
	broken := errors.New("it broke off")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tt := range map[string]struct {
		ctx     context.Context
		content io.Reader
		size    int64
	}{
		"too short":    {t.Context(), strings.NewReader("short"), 100},
		"broken off":   {t.Context(), io.MultiReader(strings.NewReader("short"), &failing{broken}), 100},
		"at the end":   {t.Context(), io.MultiReader(bytes.NewReader(make([]byte, 99)), &failing{broken}), 100},
		"given up":     {cancelled, strings.NewReader("short"), 5},
		"a large part": {t.Context(), io.MultiReader(bytes.NewReader(make([]byte, 20<<20)), &failing{broken}), 21 << 20},
	} {
		if err := s.Put(tt.ctx, "code/part/x", tt.size, tt.content); err == nil {
			t.Errorf("%s: it was stored", name)
		}
		gone(t, s, "code/part/x")
	}
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }
