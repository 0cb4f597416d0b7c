package source

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"time"
)

// Parcel is a snapshot's list of contents on its way between two stores. What
// it says was checked: its digest, and that nothing in it leads out of the
// folder that it is laid out in.
type Parcel struct {
	digest string
	data   []byte
	tree   tree
}

// The names of what a snapshot consists of that is sent to another store as a
// tar.
const (
	// ListName is its list, which comes first.
	ListName = "tree"
	// ContentPrefix begins the names of those of its contents that the other does
	// not have; a hash follows.
	ContentPrefix = "blobs/"
)

// Content is the content of one or several files of a snapshot.
type Content struct {
	// Hash is SHA-256, in hexadecimal digits.
	Hash string
	// Size is in bytes.
	Size int64
}

// Limits bound what is accepted of others.
type Limits struct {
	// MaxBytes is the largest sum of file sizes. Default: [DefaultMaxBytes].
	MaxBytes int64
	// MaxFiles is the largest number of files. Default: [DefaultMaxFiles].
	MaxFiles int
}

func (l Limits) complete() Limits {
	if l.MaxBytes == 0 {
		l.MaxBytes = DefaultMaxBytes
	}
	if l.MaxFiles == 0 {
		l.MaxFiles = DefaultMaxFiles
	}
	return l
}

// ErrTooLarge is returned, wrapped, for a snapshot beyond the limits.
var ErrTooLarge = errors.New("too large")

// MaxListBytes is the largest encoded list of contents that is read: that of
// [DefaultMaxFiles] with long names.
const MaxListBytes = 16 << 20

// Parcel returns the list of contents of a stored snapshot.
func (s *Store) Parcel(digest string) (*Parcel, error) {
	t, err := s.readTree(digest)
	if err != nil {
		return nil, err
	}
	data, _, err := t.encode()
	if err != nil {
		return nil, err
	}
	return ReadParcel(digest, data, Limits{MaxBytes: 1 << 62, MaxFiles: 1 << 30})
}

// FileParcel returns the list of a snapshot of one regular file, which must not change.
func FileParcel(path string) (*Parcel, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }()
	info, err := in.Stat()
	if err != nil {
		return nil, err
	}
	hasher := sha256.New()
	size, err := io.Copy(hasher, in)
	if err != nil {
		return nil, err
	}
	t := tree{Version: treeVersion, Entries: []entry{{
		Path: filepath.Base(path), Type: typeFile, Mode: uint32(info.Mode().Perm()), Size: size, Hash: hex.EncodeToString(hasher.Sum(nil)),
	}}}
	data, name, err := t.encode()
	if err != nil {
		return nil, err
	}
	return ReadParcel(digestPrefix+name, data, Limits{MaxBytes: 1 << 62})
}

// Open opens a content that is stored here.
func (s *Store) Open(hash string) (io.ReadCloser, error) {
	if !safeHash(hash) {
		return nil, fmt.Errorf("%q is no hash of a file", hash)
	}
	return os.Open(s.path(blobsDir, hash))
}

// CheckDigest refuses what is no digest of a snapshot.
func CheckDigest(digest string) error {
	_, err := hexOf(digest)
	return err
}

// ReadParcel reads an encoded list of contents from somebody who need not be
// trusted. The error wraps [ErrTooLarge] where it is beyond the limits.
func ReadParcel(digest string, data []byte, limits Limits) (*Parcel, error) {
	name, err := hexOf(digest)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != name {
		return nil, fmt.Errorf("the list of files is not that of %s: it was changed on its way", digest)
	}
	p := &Parcel{digest: digest, data: data}
	if err := json.Unmarshal(data, &p.tree); err != nil {
		return nil, fmt.Errorf("reading the list of files of %s: %w", digest, err)
	}
	if err := p.check(limits); err != nil {
		return nil, fmt.Errorf("the list of files of %s: %w", digest, err)
	}
	return p, nil
}

// check refuses a list that was not written as [Store.Snapshot] writes it.
func (p *Parcel) check(limits Limits) error {
	if p.tree.Version != treeVersion {
		return fmt.Errorf("it is of version %d, and this program reads version %d", p.tree.Version, treeVersion)
	}
	if err := p.tree.check(); err != nil {
		return err
	}
	again, _, err := p.tree.encode()
	if err != nil || !bytes.Equal(again, p.data) {
		return errors.New("it is not written in the one form that there is")
	}
	return p.fits(limits)
}

func (p *Parcel) fits(limits Limits) error {
	limits = limits.complete()
	if n := p.Files(); n > limits.MaxFiles {
		return fmt.Errorf("it has %d files, and %d are allowed: %w", n, limits.MaxFiles, ErrTooLarge)
	}
	if n := p.Bytes(); n < 0 || n > limits.MaxBytes {
		return fmt.Errorf("its files have %s, and %s are allowed: %w", FormatBytes(n), FormatBytes(limits.MaxBytes), ErrTooLarge)
	}
	return nil
}

// Digest names the snapshot.
func (p *Parcel) Digest() string { return p.digest }

// Encoded is the list as it is stored; it must not be changed.
func (p *Parcel) Encoded() []byte { return p.data }

// Files counts the snapshot's files.
func (p *Parcel) Files() int {
	n := 0
	for i := range p.tree.Entries {
		if p.tree.Entries[i].Type == typeFile {
			n++
		}
	}
	return n
}

// Bytes is the sum of the sizes of the snapshot's files.
func (p *Parcel) Bytes() int64 {
	var n int64
	for i := range p.tree.Entries {
		if n += p.tree.Entries[i].Size; n < 0 || p.tree.Entries[i].Size < 0 {
			return -1 // more than can be counted
		}
	}
	return n
}

// Contents are the contents of the snapshot's files, each once, by hash.
func (p *Parcel) Contents() []Content {
	sizes := map[string]int64{}
	for i := range p.tree.Entries {
		if e := &p.tree.Entries[i]; e.Type == typeFile {
			sizes[e.Hash] = e.Size
		}
	}
	out := make([]Content, 0, len(sizes))
	for hash, size := range sizes {
		out = append(out, Content{Hash: hash, Size: size})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Hash < out[j].Hash })
	return out
}

// Sequence are the contents in the order in which [Parcel.WriteTar] asks for
// them.
func (p *Parcel) Sequence() []Content {
	var out []Content
	for i := range p.tree.Entries {
		if e := &p.tree.Entries[i]; e.Type == typeFile {
			out = append(out, Content{Hash: e.Hash, Size: e.Size})
		}
	}
	return out
}

// Contains reports whether the snapshot holds a file, or a symbolic link, at
// the slash-separated path.
func (p *Parcel) Contains(path string) bool { return p.tree.contains(path) }

// WriteTar writes the snapshot as one tar: folders, then files, then links.
// What a content is read as is checked; where it is not what its hash says the
// error wraps [ErrDamaged] and the tar has no end.
func (p *Parcel) WriteTar(ctx context.Context, out io.Writer, open func(context.Context, Content) (io.ReadCloser, error)) error {
	archive := tar.NewWriter(out)
	for _, kind := range []string{typeFolder, typeFile, typeLink} {
		for i := range p.tree.Entries {
			e := &p.tree.Entries[i]
			if e.Type != kind {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := archive.WriteHeader(e.header()); err != nil {
				return fmt.Errorf("writing %s: %w", e.Path, err)
			}
			if kind != typeFile {
				continue
			}
			if err := e.copyInto(ctx, archive, open); err != nil {
				return fmt.Errorf("writing %s: %w", e.Path, err)
			}
		}
	}
	return archive.Close()
}

func (e *entry) header() *tar.Header {
	h := &tar.Header{Name: e.Path, Mode: int64(e.Mode), ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
	switch e.Type {
	case typeFolder:
		h.Typeflag, h.Name = tar.TypeDir, e.Path+"/"
	case typeLink:
		h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, e.Target, 0o777
	default:
		h.Typeflag, h.Size = tar.TypeReg, e.Size
	}
	return h
}

func (e *entry) copyInto(ctx context.Context, out io.Writer, open func(context.Context, Content) (io.ReadCloser, error)) error {
	in, err := open(ctx, Content{Hash: e.Hash, Size: e.Size})
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("its content is missing: %w", ErrDamaged)
	}
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	hasher := sha256.New()
	n, err := io.Copy(io.MultiWriter(out, hasher), io.LimitReader(in, e.Size))
	if err != nil {
		return err
	}
	if n != e.Size || hex.EncodeToString(hasher.Sum(nil)) != e.Hash {
		return fmt.Errorf("its content: %w", ErrDamaged)
	}
	return nil
}
