package data

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/crafted"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/worktree"
)

// hostile stores what the door takes of a tenant, and claims as many files as it is told to.
func hostile(t *testing.T, b backend.Backend, files int64, list ...crafted.Entry) digest.ID {
	t.Helper()
	c, err := crafted.Store(t.Context(), b, files, -1, list...)
	must(t, err)
	must(t, c.Contents(t.Context()))
	raw, err := backend.Read(t.Context(), b, commit.Key(c.ID))
	must(t, err)
	must(t, CheckObject(commit.Key(c.ID), raw)) // the door takes it
	return c.ID
}

// TestHostileCommits: what a tenant stored does not lead a checkout out of its folder.
func TestHostileCommits(t *testing.T) {
	for name, list := range map[string][]crafted.Entry{
		"a link below a link": {{Path: "z", Target: "w"}, {Path: "z/victim", Target: "planted"}},
		"a file below a link": {{Path: "z", Target: "w"}, {Path: "z/victim", Content: "planted"}},
		"over a link that is higher": {
			{Path: "a/b/c/up", Target: "../../.."}, {Path: "z", Target: "a/b/c/up/../../../outside"}, {Path: "z/victim", Target: "planted"},
		},
		"a link over a link":      {{Path: "a/b/c/up", Target: "../../.."}, {Path: "z", Target: "a/b/c/up/../../../outside"}},
		"an absolute link":        {{Path: "z", Target: "/etc"}},
		"up":                      {{Path: "z", Target: "../outside"}},
		"up in a path":            {{Path: "../outside/victim", Content: "planted"}},
		"up within a path":        {{Path: "a/../../outside/victim", Content: "planted"}},
		"an absolute path":        {{Path: "/outside", Content: "planted"}},
		"an empty part":           {{Path: "a//b", Content: "planted"}},
		"a dot":                   {{Path: "a/./b", Content: "planted"}},
		"a NUL":                   {{Path: "a\x00b", Content: "planted"}},
		"a name of ours":          {{Path: "a/.muster-partial-0123456789abcdef", Content: "planted"}},
		"a long name":             {{Path: strings.Repeat("n", 256), Content: "planted"}},
		"more than it claims":     {{Path: "a", Content: "1"}, {Path: "b", Content: "2"}, {Path: "c", Content: "3"}},
		"a file that is a folder": {{Path: "a", Content: "1"}, {Path: "a-b", Content: "2"}, {Path: "a/c", Content: "3"}},
	} {
		for _, o := range []CheckoutOptions{{}, {ReadOnly: true, Delete: true}} {
			t.Run(fmt.Sprintf("%s, %v", name, o.Delete), func(t *testing.T) {
				p := newPlace(t)
				top := t.TempDir()
				outside := filepath.Join(top, "outside")
				must(t, os.Mkdir(outside, 0o755))
				must(t, os.WriteFile(filepath.Join(outside, "victim"), []byte("somebody else's"), 0o600))
				into := filepath.Join(top, "cache", "key", "files")
				must(t, os.MkdirAll(into, 0o755))
				must(t, os.WriteFile(filepath.Join(into, "old"), []byte("so that it is not fresh"), 0o600))
				claimed := int64(len(list))
				if strings.HasPrefix(name, "more") {
					claimed = 1
				}
				id := hostile(t, p.bytes, claimed, list...)
				if _, err := view(t, p.Dataset, id.String()).Checkout(t.Context(), into, o); err == nil {
					t.Error("it is checked out")
				}
				same(t, "what is outside", map[string]string{"victim": "somebody else's"}, folder(t, outside))
				if entries, err := os.ReadDir(top); err != nil || len(entries) != 2 {
					t.Errorf("%v in the folder above: %v", entries, err)
				}
			})
		}
	}
}

// TestALinkBecomesAFolder: an ordinary version in the folder that has an earlier one.
func TestALinkBecomesAFolder(t *testing.T) {
	p := newPlace(t)
	into := filepath.Join(t.TempDir(), "out")
	for _, m := range []map[string]string{
		{"run1/model": "model of run 1", "latest -> run1": ""},
		{"run1/model": "model of run 1", "latest/model": "model of run 2"},
	} {
		dir := t.TempDir()
		files(t, dir, m)
		put(t, p.Dataset, "main", Folder(dir), AddOptions{Replace: true})
		_, err := view(t, p.Dataset, "main").Checkout(t.Context(), into, CheckoutOptions{})
		must(t, err)
		same(t, "the version", m, folder(t, into))
	}
}

// TestALinkOfAnEarlierVersion: links of two versions lead out together, where the first stays.
func TestALinkOfAnEarlierVersion(t *testing.T) {
	p := newPlace(t)
	top := t.TempDir()
	into, home := filepath.Join(top, "out"), filepath.Join(top, "home")
	must(t, os.Mkdir(home, 0o755))
	one, two := t.TempDir(), t.TempDir()
	files(t, one, map[string]string{"a/b/c/x": "x", "a/b/c/up -> ../../..": ""})
	files(t, two, map[string]string{"a/b/c/x": "x", "z -> a/b/c/up/../home": ""})
	put(t, p.Dataset, "main", Folder(one), AddOptions{Replace: true})
	_, err := view(t, p.Dataset, "main").Checkout(t.Context(), into, CheckoutOptions{})
	must(t, err)
	put(t, p.Dataset, "main", Folder(two), AddOptions{Replace: true})
	if _, err = view(t, p.Dataset, "main").Checkout(t.Context(), into, CheckoutOptions{}); err == nil || !strings.Contains(err.Error(), "leads out") {
		t.Errorf("%v", err)
	}
	if _, err := os.Lstat(filepath.Join(into, "z")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the link that leads out stays: %v", err)
	}
}

// TestLinksAreCheckedWhenTheyAreWritten: a put says at once what no get would write.
func TestLinksAreCheckedWhenTheyAreWritten(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		out   bool
	}{
		"out over another link":    {map[string]string{"a/b/c/up -> ../../..": "", "z -> a/b/c/up/../outside": ""}, true},
		"within over another link": {map[string]string{"a/b/c/up -> ../..": "", "z -> a/b/c/up/../inside": ""}, false},
		"down and up":              {map[string]string{"a/b": "", "z -> a/../a/b": ""}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			dir := t.TempDir()
			files(t, dir, c.files)
			_, err := p.Put(t.Context(), "main", Folder(dir), PutOptions{})
			if c.out != (err != nil && strings.Contains(err.Error(), "over another link")) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestTheRestOfACheckoutIsNotPut: no checkout could write a commit with such a name.
func TestTheRestOfACheckoutIsNotPut(t *testing.T) {
	p := newPlace(t)
	dir := t.TempDir()
	files(t, dir, map[string]string{"a/.muster-partial-0123456789abcdef": "half", "b": "whole"})
	if _, err := p.Put(t.Context(), "main", Folder(dir), PutOptions{}); err == nil || !strings.Contains(err.Error(), "broken off") {
		t.Errorf("%v", err)
	}
}

// TestStrangeThingsInTheTarget: whatever has the name of an entry is replaced, and what it leads to
// stays as it is.
func TestStrangeThingsInTheTarget(t *testing.T) {
	for name, plant := range map[string]func(path, victim string) error{
		"a link to a file":   func(path, victim string) error { return os.Symlink(victim, path) },
		"a link to a folder": func(path, victim string) error { return os.Symlink(filepath.Dir(victim), path) },
		"a link to nothing":  func(path, _ string) error { return os.Symlink("nothing", path) },
		"a hard link":        func(path, victim string) error { return os.Link(victim, path) },
		"a pipe":             func(path, _ string) error { return unix.Mkfifo(path, 0o600) },
		"a socket":           func(path, _ string) error { return unix.Mknod(path, unix.S_IFSOCK|0o600, 0) },
		"an empty folder":    func(path, _ string) error { return os.Mkdir(path, 0o700) },
		"a file":             func(path, _ string) error { return os.WriteFile(path, []byte("else"), 0o400) },
	} {
		for _, entry := range []string{"f", "f/below", "f -> x", "f*"} {
			for size, content := range map[string]string{"small": "content", "long": noise(7, 3<<20)} {
				t.Run(fmt.Sprintf("%s, %s, %s", name, entry, size), func(t *testing.T) {
					p := newPlace(t)
					top := t.TempDir()
					victim, into := filepath.Join(top, "victim"), filepath.Join(top, "into")
					must(t, os.WriteFile(victim, []byte("victim"), 0o600))
					must(t, os.Mkdir(into, 0o755))
					must(t, plant(filepath.Join(into, "f"), victim))
					want := map[string]string{entry: content, "x": "x"}
					if strings.Contains(entry, " -> ") {
						want[entry] = ""
					}
					src := t.TempDir()
					files(t, src, want)
					put(t, p.Dataset, "main", Folder(src), AddOptions{})
					r, err := view(t, p.Dataset, "main").Checkout(t.Context(), into, CheckoutOptions{})
					must(t, err)
					replaced := int64(1)
					if name == "an empty folder" && entry == "f/below" {
						replaced = 0
					}
					if r.Files != 2 || r.Replaced != replaced {
						t.Errorf("%+v", r)
					}
					same(t, name, want, folder(t, into))
					if text, err := os.ReadFile(victim); err != nil || string(text) != "victim" {
						t.Errorf("what it led to is %q, %v", text, err)
					}
				})
			}
		}
	}
}

// TestAFullFolderIsNotRemovedSilently: a folder with something in it gives way to a file only where
// everything else is to go.
func TestAFullFolderIsNotRemovedSilently(t *testing.T) {
	for entry, content := range map[string]string{"f": "", "f -> x": "", "f*": noise(5, 9<<20)} {
		p := newPlace(t)
		src, into := t.TempDir(), t.TempDir()
		files(t, src, map[string]string{entry: content, "x": "x"})
		files(t, into, map[string]string{"f/mine": "mine"})
		put(t, p.Dataset, "main", Folder(src), AddOptions{})
		v := view(t, p.Dataset, "main")
		if _, err := v.Checkout(t.Context(), into, CheckoutOptions{}); err == nil || !strings.Contains(err.Error(), "--mirror") {
			t.Errorf("%v", err)
		}
		if _, err := os.Stat(filepath.Join(into, "f/mine")); err != nil {
			t.Errorf("what was there is gone: %v", err)
		}
		if partials, err := filepath.Glob(filepath.Join(into, ".muster-*")); err != nil || len(partials) > 0 {
			t.Errorf("%s: partial files are left: %v %v", entry, partials, err)
		}
		_, err := v.Checkout(t.Context(), into, CheckoutOptions{Delete: true})
		must(t, err)
		same(t, "with everything else removed", map[string]string{entry: content, "x": "x"}, folder(t, into))
	}
}

// TestAPartialFileOfSomebodyElse: a file that is being written is not written through another name.
func TestAPartialFileOfSomebodyElse(t *testing.T) {
	p := newPlace(t)
	content := noise(5, 3<<20)
	set(t, p.Dataset, "main", "", map[string]string{"long": content})
	v := view(t, p.Dataset, "main")
	into := t.TempDir()
	e, err := v.Stat(t.Context(), "long")
	must(t, err)
	w, err := worktree.Open(into, worktree.Options{})
	must(t, err)
	begun, err := w.Begin(onDisk(&e))
	must(t, err)
	must(t, begun.Abort())
	must(t, w.Close())
	partials, err := filepath.Glob(filepath.Join(into, ".muster-partial-*"))
	if err != nil || len(partials) != 1 {
		t.Fatalf("%v %v", partials, err)
	}
	victim := filepath.Join(t.TempDir(), "victim")
	must(t, os.Rename(partials[0], victim))
	must(t, os.Link(victim, partials[0]))
	_, err = v.Checkout(t.Context(), into, CheckoutOptions{})
	must(t, err)
	same(t, "the file", map[string]string{"long": content}, folder(t, into))
	if text, err := os.ReadFile(victim); err != nil || strings.Trim(string(text), "\x00") != "" {
		t.Errorf("the other name of the partial file was written to: %v", err)
	}
}

// TestEveryTreeOverEveryOther: the checkout of one tree into the folder of another is what a fresh
// checkout is, and nothing outside of the folder changes.
func TestEveryTreeOverEveryOther(t *testing.T) {
	p := newPlace(t)
	top := t.TempDir()
	outside := filepath.Join(top, "outside")
	files(t, outside, map[string]string{"a": "not ours", "b/a": "not ours"})
	var last map[string]string
	into := filepath.Join(top, "into")
	i := 0
	for m := range crafted.Trees(t, 300, 10_000) {
		put(t, p.Dataset, "main", Tar(bytes.NewReader(tarOf(t, m))), AddOptions{Replace: true})
		o := CheckoutOptions{Delete: true, ReadOnly: i%2 == 0}
		if _, err := view(t, p.Dataset, "main").Checkout(t.Context(), into, o); err != nil {
			t.Fatalf("pair %d: %v over %v: %v", i, m, last, err)
		}
		same(t, fmt.Sprintf("pair %d: over %v", i, last), m, folder(t, into))
		if t.Failed() {
			return
		}
		last = m
		i++
	}
	same(t, "what is outside", map[string]string{"a": "not ours", "b/a": "not ours"}, folder(t, outside))
	if entries, err := os.ReadDir(top); err != nil || len(entries) != 2 {
		t.Errorf("%v beside it: %v", entries, err)
	}
	if _, err := os.Stat(filepath.Join(into, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a link that leads to nothing made it: %v", err)
	}
}
