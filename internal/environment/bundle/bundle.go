package bundle

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"regexp"
	"strings"

	"github.com/muster-dev/muster/internal/osfile"
)

// NoteFile is the file, in the environment's folder, that holds its [Note].
const NoteFile = ".muster-environment.json"

// The names of what an environment consists of on its way to a store.
const (
	// PackedName is what is said of it, a [Packed] in JSON, which comes first.
	PackedName = "packed"
	// TarName is its tar.
	TarName = "bundle"
)

const (
	// MaxNoteBytes is the size of the largest note that is read.
	MaxNoteBytes = 1 << 20
	// MaxBytes is the sum of the sizes of the largest environment that is packed,
	// as its files say: one that is full of holes has no room elsewhere.
	MaxBytes = 64 << 30
	// maxSearchPath is that of the longest search path: variables of a container
	// are bounded.
	maxSearchPath = 16 << 10
	// maxPackages is how many packages an environment says at most that it has.
	maxPackages = 4096
)

// ErrUnwanted is wrapped by the error that says that a bundle will never be
// taken: trying again is of no use.
var ErrUnwanted = errors.New("nobody takes this environment")

// Note is what a build says of the environment that it made.
type Note struct {
	// Python is the version of its Python: "3.13.1".
	Python string `json:"python"`
	// SearchPath is PATH in the image that it was built in, without the
	// environment's own programs.
	SearchPath string `json:"searchPath"`
	// Platform is what it was built for: "linux-x86_64". Empty: older builds do not
	// say.
	Platform string `json:"platform,omitempty"`
	// Packages are what was installed into it, each as its name, a "-" and its
	// version, and where it comes from a place of its own what was there: "numpy-2.1.0",
	// "mine-1 @ sha256=5e88...". In order. Nil: older builds do not say.
	Packages []string `json:"packages"`
}

// Packed is a bundle as it is known on its way.
type Packed struct {
	Note
	// Hash is the tar's SHA-256, in hexadecimal digits.
	Hash string `json:"hash"`
	// Size is the tar's, in bytes.
	Size int64 `json:"size"`
}

var (
	keys     = regexp.MustCompile(`^[0-9a-f]{64}$`)
	versions = regexp.MustCompile(`^[0-9][0-9A-Za-z.+]{0,63}$`)
	// platforms and packages are read out to people.
	platforms = regexp.MustCompile(`^[0-9A-Za-z_.+!=-]{0,256}$`)
	packages  = regexp.MustCompile(`^[0-9A-Za-z_.+!=-]{1,256}( @ [0-9A-Za-z_.+!=-]{1,256})?$`)
)

// CheckKey refuses what is no content key of an environment.
func CheckKey(key string) error {
	if !keys.MatchString(key) {
		return fmt.Errorf("%q is no key of an environment: 64 hexadecimal digits are expected", key)
	}
	return nil
}

// ReadPacked reads what is said of a bundle by somebody who need not be trusted.
func ReadPacked(text []byte) (Packed, error) {
	var p Packed
	if err := json.Unmarshal(text, &p); err != nil {
		return Packed{}, fmt.Errorf("reading what is said of the environment: %w", err)
	}
	if !keys.MatchString(p.Hash) || p.Size <= 0 {
		return Packed{}, fmt.Errorf("an environment of %d bytes with the hash %q is none", p.Size, p.Hash)
	}
	return p, p.check()
}

func (n Note) check() error {
	if !versions.MatchString(n.Python) {
		return fmt.Errorf("%q is no version of Python", n.Python)
	}
	if len(n.SearchPath) > maxSearchPath || strings.ContainsAny(n.SearchPath, "\x00\n") {
		return fmt.Errorf("a search path of %d bytes is not one: %d are allowed, in one line", len(n.SearchPath), maxSearchPath)
	}
	for folder := range strings.SplitSeq(n.SearchPath, ":") {
		if folder != "" && !path.IsAbs(folder) {
			return fmt.Errorf("the search path has %q in it, which is not a whole path", folder)
		}
	}
	if !platforms.MatchString(n.Platform) {
		return fmt.Errorf("%q is no platform", n.Platform)
	}
	if len(n.Packages) > maxPackages {
		return fmt.Errorf("it has %d packages, and %d are allowed", len(n.Packages), maxPackages)
	}
	for _, p := range n.Packages {
		if !packages.MatchString(p) {
			return fmt.Errorf("%q is no package with its version", p)
		}
	}
	return nil
}

// ReadNote reads the note in a folder. The error wraps [fs.ErrNotExist] where
// there is none: the build is not finished, or never will be.
func ReadNote(folder string) (Note, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return Note{}, fmt.Errorf("opening the environment: %w", err)
	}
	defer func() { _ = root.Close() }()
	text, err := osfile.ReadRegular(root, NoteFile, MaxNoteBytes)
	if err != nil {
		return Note{}, fmt.Errorf("reading the environment's note: %w", err)
	}
	var n Note
	if err := json.Unmarshal(text, &n); err != nil {
		return Note{}, fmt.Errorf("reading the environment's note: %w", err)
	}
	return n, n.check()
}
