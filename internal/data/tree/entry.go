package tree

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/pack"
)

// Kind is what an entry is.
type Kind byte

// The kinds of entries.
const (
	File Kind = 1
	Link Kind = 2
	// Folder is never in a tree: it is what listings say of paths with something
	// below.
	Folder Kind = 3
)

// String is the kind in a word.
func (k Kind) String() string {
	switch k {
	case File:
		return "file"
	case Link:
		return "link"
	case Folder:
		return "folder"
	}
	return fmt.Sprintf("kind %d", byte(k))
}

// Entry is one file or symbolic link.
type Entry struct {
	Path string
	Kind Kind
	// Executable is the owner's bit of a file.
	Executable bool
	// Size is the length of a file in bytes, of a link's target, or of everything
	// below a folder.
	Size int64
	// Files is how many entries a folder has below it.
	Files int64
	// Content names the bytes of a file, if there are any. Two files have the same
	// bytes if and only if they have the same Content.
	Content digest.ID
	// List says that Content names the list of the file's chunks.
	List bool
	// Target is where a link leads.
	Target string
	// Place is where Content lies. It is no part of what the entry is.
	Place pack.Place
}

// Same says that two entries are the same thing, wherever it lies.
func (e *Entry) Same(o *Entry) bool {
	if e == nil || o == nil {
		return e == o
	}
	return e.Path == o.Path && e.Kind == o.Kind && e.Executable == o.Executable && e.Size == o.Size &&
		e.Content == o.Content && e.List == o.List && e.Target == o.Target
}

// The longest path, and the longest part of one, in bytes: what Linux takes.
const (
	MaxPath = 4095
	MaxPart = 255
)

// CheckPath says what is wrong with a path.
func CheckPath(p string) error {
	shown := p
	if len(shown) > 80 {
		shown = shown[:80] + "..."
	}
	switch {
	case p == "":
		return errors.New("the path is empty: name a file")
	case len(p) > MaxPath:
		return fmt.Errorf("path %q has %d bytes: at most %d are possible", shown, len(p), MaxPath)
	case strings.IndexByte(p, 0) >= 0:
		return fmt.Errorf("path %q has a NUL byte: no file can be called so", shown)
	case p[0] == '/':
		return fmt.Errorf("path %q begins with a slash: paths are relative to the dataset", shown)
	}
	for part := range strings.SplitSeq(p, "/") {
		switch {
		case part == "":
			return fmt.Errorf("path %q has an empty part: leave out slashes that are too many", shown)
		case part == "." || part == "..":
			return fmt.Errorf("path %q has the part %q: write it without", shown, part)
		case len(part) > MaxPart:
			return fmt.Errorf("path %q has a part of %d bytes: at most %d are possible", shown, len(part), MaxPart)
		}
	}
	return nil
}

// CheckTarget refuses links that lead out of the tree.
func CheckTarget(link, target string) error {
	if target == "" || len(target) > MaxPath || strings.IndexByte(target, 0) >= 0 {
		return fmt.Errorf("link %q leads to %.80q, which is no path", link, target)
	}
	joined := path.Join(path.Dir(link), target)
	if target[0] == '/' || joined == ".." || strings.HasPrefix(joined, "../") {
		return fmt.Errorf("link %q leads to %q, out of the tree: make it a relative link within, or leave it out", link, target)
	}
	return nil
}

// Check says what is wrong with an entry that is to be put into a tree.
func (e *Entry) Check() error {
	if err := CheckPath(e.Path); err != nil {
		return err
	}
	switch {
	case e.Kind == Link && e.Size != int64(len(e.Target)):
		return fmt.Errorf("link %q of %d bytes has a target of %d", e.Path, e.Size, len(e.Target))
	case e.Kind == Link:
		return CheckTarget(e.Path, e.Target)
	case e.Kind != File:
		return fmt.Errorf("%q is a %s: only files and links are kept", e.Path, e.Kind)
	case e.Size < 0 || e.Size == 0 != e.Content.IsZero() || e.Size > 0 && e.Place.IsZero():
		return fmt.Errorf("%q has %d bytes, and its content is not said rightly", e.Path, e.Size)
	}
	return nil
}

// Root is a whole tree.
type Root struct {
	// ID names what is in it; zero: nothing.
	ID digest.ID
	// Place is where its topmost node lies.
	Place pack.Place
	// Files and Bytes are how much is in it.
	Files, Bytes int64
}

// Ref is a node as the level above has it.
type Ref struct {
	Last         string
	ID           digest.ID
	Place        pack.Place
	Files, Bytes int64
}

// Edit sets or removes one key.
type Edit struct {
	Path string
	// Entry is nil to remove.
	Entry *Entry
}

// Loader reads blobs, checked against their names.
type Loader interface {
	Load(ctx context.Context, kind pack.Kind, id digest.ID, at pack.Place) ([]byte, error)
}

// Saver stores blobs, and says where they will lie.
type Saver interface {
	// Compress is a blob as it is to be stored. It may be asked by many at once.
	Compress(raw []byte) []byte
	// Save stores a blob of so many bytes, as Compress made it or as it is.
	Save(ctx context.Context, kind pack.Kind, id digest.ID, raw int, stored []byte) (pack.Place, error)
}
