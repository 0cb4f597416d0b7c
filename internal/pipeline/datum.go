package pipeline

import (
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/zeebo/blake3"

	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/tree"
)

// Datum is what a stage computes at once.
type Datum struct {
	// Name says which files it has. It is a path that a tree can have, and stays
	// the same as long as the paths of the files do.
	Name string
	// Given are the files and folders that it has, in the order of the names of
	// their sources and of their paths.
	Given []Given
	// Files names all inputs of a datum: names of sources, paths and contents, and the values of joins
	// and groups, which programs get. Nothing else.
	Files digest.ID
}

// Given is one file or folder that a datum has.
type Given struct {
	// Source is the index of the source; Input its name.
	Source int
	Input  string
	// Path is where it is in its source; empty: all of it.
	Path string
	// Kind is File or Link, or Folder for all below Path.
	Kind tree.Kind
	// ID names what is there: for a folder everything below with paths from there,
	// for all of a source its tree.
	ID digest.ID
	// Files and Bytes are how much it is.
	Files, Bytes int64
	// JoinOn and GroupBy are the values that it shares with the others of a join or a group.
	JoinOn, GroupBy string
}

// matched reports whether it is part of a join or a group by a value that programs see.
func (g *Given) matched() bool { return g.JoinOn != "" || g.GroupBy != "" }

// identify completes a datum.
func (d *Datum) identify() {
	matched := slices.ContainsFunc(d.Given, func(g Given) bool { return g.matched() })
	purpose := "datum"
	if matched {
		purpose = "matched datum"
	}
	h := newHash(purpose)
	for i := range d.Given {
		g := &d.Given[i]
		h.text(g.Input)
		h.text(g.Path)
		h.number(uint64(g.Kind))
		h.id(g.ID)
		if matched {
			h.text(g.JoinOn)
			h.text(g.GroupBy)
		}
	}
	d.Files = h.sum()
}

// hash is a hash of values that cannot run into one another. Most are of a few
// bytes, which need no hasher that takes more and more.
type hash struct {
	h   *blake3.Hasher
	buf []byte
}

// hashBytes is up to how many bytes are hashed at once.
const hashBytes = 1 << 10

// newHash begins a hash for a purpose, so that those of two are never the same.
func newHash(purpose string) *hash {
	h := &hash{buf: make([]byte, 0, 192)}
	h.text("muster pipeline 1 " + purpose)
	return h
}

// spill hands the hasher what there is, where that is much.
func (h *hash) spill() {
	if len(h.buf) < hashBytes {
		return
	}
	if h.h == nil {
		h.h = blake3.New()
	}
	_, _ = h.h.Write(h.buf) // of a hash: never fails
	h.buf = h.buf[:0]
}

func (h *hash) number(n uint64) { h.buf = binary.AppendUvarint(h.buf, n) }

func (h *hash) id(id digest.ID) {
	h.buf = append(h.buf, id[:]...)
	h.spill()
}

func (h *hash) text(s string) {
	h.number(uint64(len(s)))
	h.buf = append(h.buf, s...)
	h.spill()
}

func (h *hash) entry(e *tree.Entry) {
	flags := uint64(e.Kind) << 1
	if e.Executable {
		flags |= 1
	}
	h.number(flags)
	h.number(uint64(e.Size))
	if e.Kind == tree.Link {
		h.text(e.Target)
		return
	}
	h.id(e.Content)
}

func (h *hash) sum() digest.ID {
	if h.h == nil {
		return digest.Of(h.buf)
	}
	_, _ = h.h.Write(h.buf) // of a hash: never fails
	var id digest.ID
	h.h.Sum(id[:0])
	return id
}

// gatherer makes given files and folders out of entries in the order of their
// paths.
type gatherer struct {
	source *Source
	folder *hash
	given  Given
	from   int // where paths within the folder begin
}

// begin begins one.
func (g *gatherer) begin(path string, folder bool) {
	g.given = Given{Source: g.source.Index, Input: g.source.Name, Path: path}
	g.folder = nil
	if folder {
		g.given.Kind, g.folder = tree.Folder, newHash("folder")
		g.from = len(path) + 1
	}
}

// add takes an entry that belongs to it.
func (g *gatherer) add(e *tree.Entry) {
	g.given.Files++
	g.given.Bytes += e.Size
	if g.folder != nil {
		g.folder.text(e.Path[g.from:])
		g.folder.entry(e)
		return
	}
	g.given.Kind = e.Kind
	h := newHash("file")
	h.entry(e)
	g.given.ID = h.sum()
}

// end is what was begun.
func (g *gatherer) end() Given {
	if g.folder != nil {
		g.given.ID = g.folder.sum()
	}
	return g.given
}

// all is everything of a source.
func (s *Source) all(root tree.Root) Given {
	return Given{Source: s.Index, Input: s.Name, Kind: tree.Folder, ID: root.ID, Files: root.Files, Bytes: root.Bytes}
}

// The marks that begin parts of names of datums: of the next input of a
// combination, of a value that a group has in common, of a hash in place of a
// name that is too long, and of a part that begins like one of these.
const (
	markNext   = "+"
	markValue  = "="
	markHash   = "~"
	markEscape = "^"
	marks      = markNext + markValue + markHash + markEscape
	// longestName leaves room for what trees put before it.
	longestName = tree.MaxPath - 64
)

// wholeName is the name of the datum that is all of a stage's only source.
const wholeName = "all"

// leafName is the name of a datum of one source, within a combination with the
// name of the source before it.
func (s *Source) leafName(path string, within bool) string {
	if !within && path == "" {
		return wholeName
	}
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if part != "" && strings.ContainsAny(part[:1], marks) {
			parts[i] = markEscape + part
		}
	}
	path = strings.Join(parts, "/")
	switch {
	case !within:
		return path
	case path == "":
		return s.Name
	}
	return s.Name + "/" + path
}

// leafPath is the path that a datum of a stage with one source has its name from,
// unless that is a hash.
func (n *node) leafPath(name string) (path string, ok bool) {
	switch {
	case n.how != single, strings.HasPrefix(name, markHash):
		return "", false
	case n.source.Glob.Whole():
		return "", true
	}
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = strings.TrimPrefix(part, markEscape)
	}
	return strings.Join(parts, "/"), true
}

// valueName is the name of the datum of a group that has a value in common.
func valueName(value string) string {
	var b strings.Builder
	b.WriteString(markValue)
	for i := range len(value) {
		c := value[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-_. ", c) >= 0:
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteString(hex.EncodeToString([]byte{c}))
		}
	}
	return b.String()
}

// fit is a name as trees can have it: a hash where it is too long.
func fit(name string) string {
	long := len(name) > longestName
	for part := range strings.SplitSeq(name, "/") {
		long = long || len(part) > tree.MaxPart
	}
	if !long {
		return name
	}
	h := newHash("name")
	h.text(name)
	return markHash + h.sum().String()
}
