//go:build linux

package source

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-dev/muster/internal/data/crafted"
	"github.com/muster-dev/muster/internal/osfile/meddler"
)

// TestHostileSnapshots: lists that no snapshot of a folder has. Each reader refuses them: the store
// that lays out its own, the door that takes them from others, and the agent that unpacks a tar.
func TestHostileSnapshots(t *testing.T) {
	file := func(path string) entry {
		sum := sha256.Sum256([]byte("abc"))
		return entry{Path: path, Type: typeFile, Mode: 0o644, Size: 3, Hash: hex.EncodeToString(sum[:])}
	}
	folder := func(path string) entry { return entry{Path: path, Type: typeFolder, Mode: 0o755} }
	link := func(path, target string) entry { return entry{Path: path, Type: typeLink, Target: target} }
	for name, list := range map[string][]entry{
		"an entry below a link":     {folder("a"), file("a/x"), link("b", "a"), file("b/y")},
		"a link below a link":       {folder("a"), link("b", "a"), link("b/c", "x")},
		"an entry below a file":     {file("a"), file("a/b")},
		"an entry in no folder":     {file("a/b")},
		"twice":                     {file("a"), file("a")},
		"a file that is a folder":   {folder("a"), file("a")},
		"a link out":                {link("a", "../outside")},
		"below an absolute link":    {link("a", "/outside"), file("a/victim")},
		"in an absolute link":       {folder("a"), link("a", "/outside"), folder("a/new")},
		"out, over an absolute one": {link("a", "/outside"), link("z", "a/../../outside")},
		"an absolute link too long": {link("a", "/"+strings.Repeat("x", 5000))},
		"a link out over a link":    {folder("a"), folder("a/b"), link("a/b/up", "../.."), link("z", "a/b/up/../outside")},
		"a link out over two links": {folder("a"), folder("a/b"), link("a/b/c", "up"), link("a/b/up", "../.."), link("z", "a/b/c/../outside/victim")},
		"out of the folder":         {file("../outside/victim")},
		"setuid":                    {{Path: "a", Type: typeFile, Mode: 0o4755, Size: 3, Hash: file("").Hash}},
		"a device":                  {{Path: "a", Type: "device"}},
	} {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			outside := filepath.Join(top, "outside")
			must(t, os.Mkdir(outside, 0o755))
			must(t, os.WriteFile(filepath.Join(outside, "victim"), []byte("victim"), 0o600))
			made := &tree{Version: treeVersion, Entries: list}
			data, hash, err := made.encode()
			must(t, err)
			digest := digestPrefix + hash

			store := newStore(t)
			must(t, store.putTree(hash, data))
			must(t, os.MkdirAll(filepath.Dir(store.path(blobsDir, file("").Hash)), 0o755))
			must(t, os.WriteFile(store.path(blobsDir, file("").Hash), []byte("abc"), 0o600))
			if err := store.Checkout(t.Context(), digest, filepath.Join(top, "out")); err == nil {
				t.Error("it is laid out")
			}
			if _, err := ReadParcel(digest, data, Limits{}); err == nil {
				t.Error("it is taken")
			}
			if err := Unpack(t.Context(), bytes.NewReader(tarOf(t, list)), digest, filepath.Join(top, "out"), Limits{}); err == nil {
				t.Error("it is unpacked")
			}
			if left, err := os.ReadDir(top); err != nil || len(left) != 1 {
				t.Errorf("left: %v, %v", left, err)
			}
			if left, err := os.ReadDir(outside); err != nil || len(left) != 1 {
				t.Errorf("outside: %v, %v", left, err)
			}
			if text, err := os.ReadFile(filepath.Join(outside, "victim")); err != nil || string(text) != "victim" {
				t.Errorf("%q, %v", text, err)
			}
		})
	}
}

// tarOf is a tar of entries, in their order.
func tarOf(t *testing.T, list []entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for i := range list {
		h := list[i].header()
		if list[i].Type == "device" {
			h.Typeflag = tar.TypeChar
		}
		must(t, w.WriteHeader(h))
		if list[i].Type == typeFile {
			_, err := io.WriteString(w, "abc")
			must(t, err)
		}
	}
	must(t, w.Close())
	return out.Bytes()
}

// TestLinksThatLeadOutTogether: a link leads to nothing now, and out of a checkout over another one.
func TestLinksThatLeadOutTogether(t *testing.T) {
	dir := files(t, map[string]string{"a/b/x": "x"})
	must(t, os.Symlink("../..", filepath.Join(dir, "a/b/up")))
	must(t, os.Symlink("a/b/up/../none", filepath.Join(dir, "z")))
	if _, err := newStore(t).Snapshot(t.Context(), dir, Options{}); err == nil || !strings.Contains(err.Error(), "out of the") {
		t.Error(err)
	}
}

// TestFolderThatChangesMeanwhile: while a snapshot is taken, a file of the folder becomes a link, a
// pipe or a folder, and a folder becomes a link. No file from outside is in a snapshot.
func TestFolderThatChangesMeanwhile(t *testing.T) {
	dir := files(t, map[string]string{"f": meddler.Public, "d/secret": meddler.Public, "steady": meddler.Public})
	m := meddler.Start(t, dir, "f", "d")
	taken := 0
	for n := 0; n < 1_000 && taken < 3; n++ {
		store := newStore(t)
		result, err := store.Snapshot(t.Context(), dir, Options{})
		if err != nil {
			continue // the error names the replaced file
		}
		taken++
		to := filepath.Join(t.TempDir(), "to")
		must(t, store.Checkout(t.Context(), result.Digest, to))
		must(t, filepath.WalkDir(to, func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return err
			}
			text, err := os.ReadFile(path)
			if meddler.Leaked(string(text)) {
				t.Errorf("%s is %.100q", path, text)
			}
			return err
		}))
	}
	m.Untouched(t)
	if taken == 0 {
		t.Error("no snapshot was taken: nothing is shown")
	}
}

// TestEveryTree: a snapshot of any folder is laid out, and unpacked on another machine, as the folder
// is.
func TestEveryTree(t *testing.T) {
	store := newStore(t)
	for m := range crafted.Trees(t, 4, 40) {
		dir, to := t.TempDir(), t.TempDir()
		must(t, crafted.Plant(dir, m))
		p, sent := sent(t, store, dir)
		must(t, store.Checkout(t.Context(), p.Digest(), filepath.Join(to, "out")))
		must(t, Unpack(t.Context(), bytes.NewReader(sent), p.Digest(), filepath.Join(to, "unpacked"), Limits{}))
		crafted.Check(t, m, "is laid out", filepath.Join(to, "out"))
		crafted.Check(t, m, "is unpacked", filepath.Join(to, "unpacked"))
	}
}
