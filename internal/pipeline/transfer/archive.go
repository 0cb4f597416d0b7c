package transfer

import (
	"archive/tar"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/zeebo/blake3"

	"github.com/muster-dev/muster/internal/data/digest"
)

const (
	// beginFile is the first file of an archive, a [Manifest]; endFile the last one.
	beginFile = "muster-results.json"
	endFile   = "muster-results-end.json"
	// version is that of how archives are made.
	version = 1
	// mostText is how long what Muster writes itself may be: recipes and records.
	mostText = 16 << 20
)

// Manifest says what an archive is.
type Manifest struct {
	Version int `json:"version"`
	// Pipeline is whose results they are, Stages by which recipe each of its stages
	// ran last.
	Pipeline string               `json:"pipeline"`
	Stages   map[string]digest.ID `json:"stages"`
}

// ending says what was before it.
type ending struct {
	Results int `json:"results"`
	// Sum is the BLAKE3 of all members' names, kinds and contents.
	Sum string `json:"sum"`
}

// Count is what went through an archive.
type Count struct {
	// Results are those that were written, or taken; There are those that were there
	// already.
	Results, There int
	// Files and Bytes are the contents of those that were written or taken.
	Files, Bytes int64
}

// summed is what has gone through an archive so far.
type summed struct{ hash *blake3.Hasher }

func newSummed() summed { return summed{blake3.New()} }

// member notes what a member is; its content is written to the hash after it.
func (s summed) member(h *tar.Header) error {
	words := append([]byte{h.Typeflag}, binary.LittleEndian.AppendUint64(nil, uint64(h.Size))...)
	if h.Mode&0o100 != 0 {
		words = append(words, 'x')
	}
	for _, text := range []string{h.Name, h.Linkname} {
		words = binary.LittleEndian.AppendUint64(words, uint64(len(text)))
		words = append(words, text...)
	}
	_, err := s.hash.Write(words)
	return err
}

func (s summed) String() string { return hex.EncodeToString(s.hash.Sum(nil)) }

// errBroken is of an archive that ends before its end.
var errBroken = errors.New("the archive is not whole: it ends before its end; make it, or send it, again")

// errNone is of what ends before an archive has begun.
var errNone = errors.New("what was given ends before an archive begins: it is none that `muster pipeline results export` made, or hardly anything of one; look what it is, or make it again")

// notOurs is of an archive that holds something else than results.
func notOurs(format string, args ...any) error {
	return fmt.Errorf(format+": it is no archive that `muster pipeline results export` made", args...)
}

// parsePath reads the path of something of a result: which one, and what of it.
func parsePath(path string) (key digest.ID, inside string, err error) {
	first, rest, _ := strings.Cut(path, "/")
	second, inside, found := strings.Cut(rest, "/")
	if !found || len(first) != 2 {
		return key, "", notOurs("it has %q", path)
	}
	if key, err = digest.Parse(first + second); err != nil {
		return key, "", notOurs("it has %q", path)
	}
	return key, inside, nil
}

// text reads a member that Muster wrote itself.
func text(in io.Reader, h *tar.Header) ([]byte, error) {
	if h.Typeflag != tar.TypeReg || h.Size > mostText {
		return nil, notOurs("%s is no file, or has %d bytes", h.Name, h.Size)
	}
	content := make([]byte, h.Size)
	_, err := io.ReadFull(in, content)
	return content, err
}
