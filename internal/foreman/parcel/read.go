package parcel

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/muster-dev/muster/internal/data/tree"
	"github.com/muster-dev/muster/internal/data/worktree"
	"github.com/muster-dev/muster/internal/foreman/inputlink"
)

// Limits are how much a parcel may hold. Zero: as much as there is.
type Limits struct {
	// Bytes are those of all files together.
	Bytes int64
	// Entries are files, folders and links.
	Entries int
	// Links are the bytes of the names and targets of links, which are kept in memory
	// until everything else has come.
	Links int
	// Take is asked before anything is laid out, with how many bytes of a disk it may
	// need; nil: nobody is. Its error is the reader's.
	Take func(bytes int64) error
	// Given makes a file or folder of a datum's inputs in the folder of the parcel, where a link to it
	// came, and asks take before each file. Nil: such links are refused.
	Given func(to *os.Root, name, input string, take func(bytes int64) error) error
}

// block is what a file, a folder or a link needs beside its content, and what that is
// rounded up to: the block of most file systems.
const block = 4096

// Refusal is what is wrong with a parcel, in words; sent again it would be
// refused again.
type Refusal struct{ text string }

// Error implements error.
func (r *Refusal) Error() string { return r.text }

// Refuse makes a refusal.
func Refuse(format string, args ...any) error { return &Refusal{fmt.Sprintf(format, args...)} }

// ErrBroken says that a stream ended before its parcel did.
var ErrBroken = errors.New("the stream ended before everything had come")

// needs is how many bytes of a disk something of a size may need.
func needs(size int64) int64 { return block + (size+block-1)/block*block }

// reader lays out one parcel.
type reader struct {
	root    *os.Root
	limits  Limits
	names   []string
	bytes   int64
	entries int
	links   []link
	linked  int
}

type link struct{ name, target string }

// Read lays a parcel out in a folder in which none of the names are there yet. It
// takes nothing but files, folders, and links that stay within what they come
// with, below these names. What was laid out before an error stays; nothing is
// written outside of the folder. Errors are a [*Refusal], [ErrBroken], or of the
// disk or the stream.
func Read(from io.Reader, folder string, limits Limits, names ...string) (err error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return fmt.Errorf("opening the folder of a parcel: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	r := &reader{root: root, limits: limits, names: names}
	in := tar.NewReader(from)
	for {
		h, err := in.Next()
		switch {
		case errors.Is(err, io.EOF):
			return ErrBroken
		case err != nil:
			return fmt.Errorf("reading a parcel: %w", err)
		case h.Name == end && h.Typeflag == tar.TypeReg:
			return r.link()
		}
		if err := r.lay(h, in); err != nil {
			return err
		}
	}
}

// lay lays out one entry. Links come last, so that nothing is ever written by way
// of one.
func (r *reader) lay(h *tar.Header, content io.Reader) error {
	name, err := r.check(h)
	if err != nil {
		return err
	}
	size, err := r.size(name, h)
	if err != nil {
		return err
	}
	if r.limits.Take != nil {
		if err := r.limits.Take(needs(size)); err != nil {
			return fmt.Errorf("making room for %s: %w", name, err)
		}
	}
	switch h.Typeflag {
	case tar.TypeDir:
		err = r.root.MkdirAll(name, 0o755)
	case tar.TypeReg:
		for key := range h.PAXRecords {
			if strings.HasPrefix(key, "GNU.sparse.") {
				return Refuse("%s has holes that are not sent: send it whole", name)
			}
		}
		err = r.file(name, h, content)
	case tar.TypeSymlink:
		if r.linked += len(name) + len(h.Linkname); r.limits.Links > 0 && r.linked > r.limits.Links {
			return Refuse("its links have more than %d bytes of names and targets, which is how many are taken: have the program write files, or fewer links", r.limits.Links)
		}
		r.links = append(r.links, link{name, h.Linkname})
	}
	return placed(name, err)
}

// size is how many bytes come of an entry: of folders and links none do, whatever their
// header says.
func (r *reader) size(name string, h *tar.Header) (int64, error) {
	switch {
	case h.Size < 0:
		return 0, Refuse("%s is said to have %d bytes, and has to have 0 or more", name, h.Size)
	case h.Typeflag != tar.TypeReg:
		return 0, nil
	case r.limits.Bytes > 0 && h.Size > r.limits.Bytes-r.bytes:
		return 0, Refuse("it has more than %d bytes, which is how much is taken: %s is the file at which they are too many", r.limits.Bytes, name)
	}
	r.bytes += h.Size
	return h.Size, nil
}

// placed makes a refusal of an error that has to do with the name alone.
func placed(name string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrExist):
		return Refuse("%s comes twice", name)
	case errors.Is(err, syscall.ENOTDIR):
		return Refuse("%s lies below what is no folder", name)
	case errors.Is(err, syscall.ENAMETOOLONG):
		return Refuse("%s is too long a name", name)
	}
	if _, refused := errors.AsType[*Refusal](err); refused {
		return err
	}
	return fmt.Errorf("laying out %s: %w", name, err)
}

// check refuses what may not be in a parcel, and returns where an entry goes.
func (r *reader) check(h *tar.Header) (string, error) {
	if r.entries++; r.limits.Entries > 0 && r.entries > r.limits.Entries {
		return "", Refuse("it has more than %d files, which is how many are taken: have the program write fewer", r.limits.Entries)
	}
	name := h.Name
	if h.Typeflag == tar.TypeDir {
		name = strings.TrimSuffix(name, "/")
	}
	if err := tree.CheckPath(name); err != nil {
		return "", Refuse("%v", err)
	}
	if worktree.Reserved(name) {
		return "", Refuse("the name of %s is reserved for files that are being written: have the program write to another one", name)
	}
	top, rest, _ := strings.Cut(name, "/")
	if !slices.Contains(r.names, top) {
		return "", Refuse("%q is none of what is expected: %s", name, strings.Join(r.names, ", "))
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeDir:
		return name, nil
	case tar.TypeSymlink:
		if rest == "" {
			return "", Refuse("%s is a link, and has to be a file or a folder", name)
		}
		if r.input(rest, h.Linkname) != "" {
			return name, nil
		}
		if err := tree.CheckTarget(rest, h.Linkname); err != nil {
			return "", Refuse("%v", err)
		}
		return name, nil
	}
	return "", Refuse("%s is %s: only files, folders and links within the output can be kept", name, kind(h.Typeflag))
}

func kind(flag byte) string {
	switch flag {
	case tar.TypeLink:
		return "a hard link"
	case tar.TypeChar, tar.TypeBlock:
		return "a device"
	case tar.TypeFifo:
		return "a pipe"
	}
	return fmt.Sprintf("an entry of type %q", flag)
}

func (r *reader) parent(name string) error {
	dir := path.Dir(name)
	if dir == "." {
		return nil
	}
	err := r.root.MkdirAll(dir, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return syscall.ENOTDIR
	}
	return err
}

// file writes a file. Programs may make it executable, and nothing else of its
// mode is kept.
func (r *reader) file(name string, h *tar.Header, content io.Reader) (err error) {
	if err := r.parent(name); err != nil {
		return err
	}
	file, err := r.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644|fs.FileMode(h.Mode)&0o111)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	_, err = io.Copy(file, content)
	return err
}

// link makes the links. A link that leads out, also over other links, is refused before.
func (r *reader) link() error {
	within := map[string]tree.Links{}
	for _, l := range r.links {
		top, rest, _ := strings.Cut(l.name, "/")
		if r.input(rest, l.target) != "" {
			continue
		}
		if within[top] == nil {
			within[top] = tree.Links{}
		}
		within[top][rest] = l.target
	}
	for _, links := range within {
		if err := links.Check(); err != nil {
			return Refuse("%v", err)
		}
	}
	// All folders are made before the first link: no folder is made by way of a link, where the
	// targets of the links in it would lead elsewhere.
	for _, l := range r.links {
		if err := placed(l.name, r.parent(l.name)); err != nil {
			return err
		}
	}
	if err := r.give(); err != nil {
		return err
	}
	for _, l := range r.links {
		if err := placed(l.name, r.root.Symlink(l.target, l.name)); err != nil {
			return err
		}
	}
	return nil
}

// input is the input path of a link whose target is to be given; empty: it is not.
func (r *reader) input(name, target string) string {
	if r.limits.Given == nil {
		return ""
	}
	input, _ := inputlink.Places{}.Of(name, target)
	return input
}

// give creates the given files before any link exists, and leaves the other links.
func (r *reader) give() error {
	rest := r.links[:0]
	for _, l := range r.links {
		_, name, _ := strings.Cut(l.name, "/")
		input := r.input(name, l.target)
		if input == "" {
			rest = append(rest, l)
			continue
		}
		if err := placed(l.name, r.limits.Given(r.root, l.name, input, r.takeGiven)); err != nil {
			return err
		}
	}
	r.links = rest
	return nil
}

// takeGiven counts a file that is given: another name on the disk, and as many bytes to be read.
func (r *reader) takeGiven(size int64) error {
	if r.entries++; r.limits.Entries > 0 && r.entries > r.limits.Entries {
		return Refuse("it has more than %d files, together with the files of inputs to which it links: make the program link to fewer", r.limits.Entries)
	}
	if r.limits.Bytes > 0 && size > r.limits.Bytes-r.bytes {
		return Refuse("it has more than %d bytes, together with the files of inputs to which it links: make the program link to less", r.limits.Bytes)
	}
	r.bytes += size
	if r.limits.Take == nil {
		return nil
	}
	return r.limits.Take(needs(0))
}
