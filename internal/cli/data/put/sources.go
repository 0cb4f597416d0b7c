package put

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/muster-dev/muster/internal/cli/data/address"
	"github.com/muster-dev/muster/internal/cli/exit"
)

// kind is what a source is.
type kind int

// The kinds of sources.
const (
	file kind = iota
	folder
	archive
	// stream is one file that comes out of a pipe.
	stream
)

// source is one thing that is put.
type source struct {
	kind kind
	// local is its path on this machine; empty for standard input.
	local string
	// target is the path at which it is to be: of a file its own, of a folder or
	// an archive that of the folder into which its content goes; empty: the top.
	target string
}

// usage is what a command line without what it needs is told.
const usage = "put what where? Give files or folders, and the dataset: muster data put images/ digits, or digits@next:/train"

// mirrored is what a command line with --mirror is told that names no one folder.
const mirrored = "--mirror makes a folder of the dataset like one folder (or archive): give one"

// read makes sources of the words on the command line, the last of which is
// where they go.
func (o *options) read(args []string) ([]source, address.Address, error) {
	if len(args) < 2 {
		return nil, address.Address{}, exit.Usage(usage)
	}
	words, last := args[:len(args)-1], args[len(args)-1]
	to, err := address.ParseBranch(last)
	if err != nil {
		return nil, to, err
	}
	if address.IsPattern(to.Path) {
		return nil, to, exit.Usage("%s: a pattern says where nothing can be put; give one path (with a backslash before a *, ? or [ that is meant)", last)
	}
	to.Path = address.Literal(to.Path)
	if o.mirror && len(words) > 1 {
		return nil, to, exit.Usage(mirrored)
	}
	var sources []source
	taken := map[string]string{}
	for _, word := range words {
		s, err := o.one(word, to, len(words) == 1)
		if err != nil {
			return nil, to, err
		}
		if before, twice := taken[s.target]; twice && len(words) > 1 && !o.tar {
			return nil, to, exit.Usage("%s and %s would both be %s: put them one after the other, to different paths", before, word, s.target)
		}
		taken[s.target] = word
		sources = append(sources, s)
	}
	if o.mirror && sources[0].kind != folder && sources[0].kind != archive {
		return nil, to, exit.Usage(mirrored)
	}
	return sources, to, nil
}

// one reads a word that is a source; alone says that it is the only one.
func (o *options) one(word string, to address.Address, alone bool) (source, error) {
	switch {
	case word == "":
		return source{}, exit.Usage("one of the paths is empty: is a variable of your shell not set?")
	case word == "-" && !alone:
		return source{}, exit.Usage("standard input goes to one path: give - alone")
	case word == "-" && o.tar:
		return source{kind: archive, target: to.Path}, nil
	case word == "-" && (to.Path == "" || to.Folder):
		return source{}, exit.Usage("standard input has no name: give the path of the file, such as %s:/file, or --tar if it is an archive", to.Dataset)
	case word == "-":
		return source{kind: stream, target: to.Path}, nil
	}
	info, err := os.Stat(word)
	if errors.Is(err, fs.ErrNotExist) {
		return source{}, exit.NotFound("%s: there is no such file or folder", word)
	}
	if err != nil {
		return source{}, fmt.Errorf("looking at what is to be put: %w", err)
	}
	return o.seen(word, info, to, alone)
}

// seen makes a source of what is on this machine.
func (o *options) seen(word string, info fs.FileInfo, to address.Address, alone bool) (source, error) {
	name, err := nameOf(word)
	if err != nil {
		return source{}, err
	}
	switch {
	case o.tar && info.IsDir():
		return source{}, exit.Usage("--tar is for archives, and %s is a folder: leave out --tar", word)
	case o.tar:
		return source{kind: archive, local: word, target: to.Path}, nil
	case info.IsDir() && alone:
		return source{kind: folder, local: word, target: to.Path}, nil
	case info.IsDir():
		return source{kind: folder, local: word, target: path.Join(to.Path, name)}, nil
	}
	s := source{kind: file, local: word, target: path.Join(to.Path, name)}
	if alone && to.Path != "" && !to.Folder {
		s.target = to.Path
	}
	switch {
	case info.Mode()&fs.ModeNamedPipe != 0:
		s.kind = stream
	case !info.Mode().IsRegular():
		return source{}, exit.Usage("%s is neither a file nor a folder: only those can be put", word)
	}
	return s, nil
}

// nameOf is what a path is called in its folder.
func nameOf(word string) (string, error) {
	absolute, err := filepath.Abs(word)
	if err != nil {
		return "", fmt.Errorf("finding %s: %w", word, err)
	}
	return filepath.Base(absolute), nil
}
