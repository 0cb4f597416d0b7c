package programs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/zeebo/blake3"

	"github.com/muster-dev/muster/internal/osfile"
)

const (
	// mostFiles limits the files of one command that count.
	mostFiles = 64
	// mostBytes is the size of the largest file whose contents count. Of a larger file, size and
	// modification time count.
	mostBytes = 256 << 20
)

// Command is a command of a stage.
type Command struct {
	// Words are the program and its arguments.
	Words []string
	// Lines are its standard input.
	Lines []string
	// Path are the folders in which programs are looked for by their names.
	Path []string
	// Mount is the folder in which datums appear; nothing in it is a program.
	Mount string
}

// File is a file that a command runs.
type File struct {
	Path string
	// Digest names its contents.
	Digest string
}

// own are the folders of the machine's own programs.
var own = []string{"/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/libexec", "/usr/lib64", "/lib", "/lib64", "/dev", "/proc", "/sys"}

var (
	// interpreters run scripts, and are counted by their versions, or not at all.
	interpreters = regexp.MustCompile(`^(?:(?:ba|da|z|k|a)?sh|env|python[0-9.]*|pypy[0-9.]*|Rscript|R|perl|ruby|node|julia|java|lua|conda|mamba)$`)
	// scripts are names of files that interpreters run.
	scripts = regexp.MustCompile(`\.(?:py|pyz|sh|bash|R|r|pl|rb|js|mjs|jl|jar|lua|ipynb)$`)
	// named are absolute paths within a line of a shell.
	named = regexp.MustCompile("/[^\\s'\"`;|&<>(){}$*?\\[\\]=:,]+")
)

// Find returns the files of this machine that a command runs, in the order of their paths.
func Find(ctx context.Context, c Command) ([]File, error) {
	var found []File
	for _, path := range c.paths() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		digest, err := digestOf(path)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
			continue // the stage itself reports the error
		}
		if err != nil {
			return nil, fmt.Errorf("reading program %s: %w", path, err)
		}
		found = append(found, File{Path: path, Digest: digest})
	}
	return found, nil
}

// paths are the paths of the files that the command runs, each once.
func (c *Command) paths() []string {
	var out []string
	add := func(path string) {
		if path = filepath.Clean(path); len(out) < mostFiles && !slices.Contains(out, path) && c.counts(path) {
			out = append(out, path)
		}
	}
	folders := c.folders()
	script := true // the first word that an interpreter is given
	for i, word := range c.Words {
		switch {
		case strings.ContainsAny(word, " \n;|&"):
			c.line(word, add)
		case filepath.IsAbs(word):
			if script || runs(word) {
				add(word)
			}
		case i == 0 || script && !strings.Contains(word, "/") && !scripts.MatchString(word):
			if found := c.lookUp(word); found != "" {
				add(found)
			}
		case strings.Contains(word, "/") || scripts.MatchString(word):
			for _, folder := range folders {
				add(filepath.Join(folder, word))
			}
		}
		script = script && (strings.HasPrefix(word, "-") || interpreters.MatchString(filepath.Base(word)))
	}
	for _, line := range c.Lines {
		c.line(line, add)
	}
	slices.Sort(out)
	return out
}

// line adds the files that a shell's line names.
func (c *Command) line(line string, add func(string)) {
	for _, path := range named.FindAllString(line, -1) {
		if runs(path) {
			add(path)
		}
	}
}

// folders are the folders that the command names, to which its other words may be relative.
func (c *Command) folders() (out []string) {
	for _, word := range c.Words {
		if !filepath.IsAbs(word) {
			continue
		}
		if info, err := os.Stat(word); err == nil && info.IsDir() {
			out = append(out, word)
		}
	}
	return out
}

// lookUp is a program by its name; empty: it is not in the folders of programs.
func (c *Command) lookUp(name string) string {
	for _, folder := range c.Path {
		path := filepath.Join(folder, name)
		if info, err := os.Stat(path); filepath.IsAbs(folder) && err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}

// runs reports whether a path looks like a program: a script, or a file that may be executed.
func runs(path string) bool {
	if scripts.MatchString(path) {
		return true
	}
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// counts reports whether a path is a file that counts.
func (c *Command) counts(path string) bool {
	if interpreters.MatchString(filepath.Base(path)) || c.Mount != "" && below(c.Mount, path) {
		return false
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return false
	}
	for _, folder := range own {
		if below(folder, real) {
			return false
		}
	}
	info, err := os.Stat(real)
	return err == nil && info.Mode().IsRegular()
}

func below(folder, path string) bool {
	return path == folder || strings.HasPrefix(path, strings.TrimSuffix(folder, "/")+"/")
}

// digestOf names the contents of a file.
func digestOf(path string) (digest string, err error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	folder, err := os.OpenRoot(filepath.Dir(real))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	file, err := osfile.OpenRegular(folder, filepath.Base(real)) // which does not wait for a pipe
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	if info.Size() > mostBytes {
		return fmt.Sprintf("%d bytes of %s", info.Size(), info.ModTime().UTC().Format("2006-01-02T15:04:05.999999999")), nil
	}
	h := blake3.New()
	if _, err := io.Copy(h, io.LimitReader(file, mostBytes+1)); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}
