package environment

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

const (
	// maxIncluded is the largest number of files that one requirements file may bring in,
	// and maxNested the largest number of files between it and the last of them.
	maxIncluded = 64
	maxNested   = 16
)

// Gather reads the requirements file at a path in a folder, and puts the lines of all
// files that it includes in the place of their "-r FILE" and "-c FILE" lines: of -r as
// they are, of -c as constraints, "-c NAME==VERSION". As with pip, paths are relative to
// the file that names them. They stay in the folder. Other lines are not changed. A file
// that includes no other is returned as it is.
func Gather(folder *os.Root, name string, limit int) (string, error) {
	g := &gatherer{folder: folder, left: limit, limit: limit, seen: map[string]bool{}}
	if err := g.file(path.Clean(name), false, nil); err != nil {
		return "", err
	}
	if len(g.seen) == 1 {
		return g.first, nil
	}
	return g.out.String(), nil
}

// gatherer reads files that include one another.
type gatherer struct {
	folder      *os.Root
	limit, left int
	seen        map[string]bool // by option and path
	first       string
	out         strings.Builder
}

// file writes the lines of one file, as constraints if bound is true; above are the files
// that lead there.
func (g *gatherer) file(name string, bound bool, above []string) error {
	text, err := g.read(name, above)
	if err != nil || g.seen[fmt.Sprint(bound, name)] {
		return err
	}
	g.seen[fmt.Sprint(bound, name)] = true
	if len(g.seen) > maxIncluded {
		return fmt.Errorf("%s: more than %d files include one another; put their lines into fewer files", name, maxIncluded)
	}
	above = append(above[:len(above):len(above)], name)
	for _, l := range joinLines(splitLines(strings.TrimPrefix(text, "\ufeff"))) {
		content := strings.TrimSpace(comment.ReplaceAllString(l.text, ""))
		if content == "" {
			continue
		}
		option, other := included(content)
		if option == "" || option == "-c" && g.isConstraint(content) {
			if err := g.line(content, bound && option == ""); err != nil {
				return fmt.Errorf("%s, line %d: %w", name, l.number, err)
			}
			continue
		}
		if strings.Contains(other, "://") {
			return fmt.Errorf("%s, line %d: %q includes a file of the network, which may change; copy its lines here", name, l.number, Mask(content))
		}
		if path.IsAbs(other) {
			return fmt.Errorf("%s, line %d: %q includes a file by its whole path; give a path within the code folder", name, l.number, Mask(content))
		}
		if err := g.file(path.Join(path.Dir(name), other), bound || option == "-c", above); err != nil {
			return err
		}
	}
	return nil
}

// line checks one line that includes nothing, and writes it.
func (g *gatherer) line(content string, bound bool) error {
	if bound {
		content = constraint + content
	}
	if _, err := rewrite(content); err != nil {
		return err
	}
	g.out.WriteString(content + "\n")
	return nil
}

// isConstraint reports whether a line is a constraint itself and names no file.
func (g *gatherer) isConstraint(content string) bool {
	_, err := rewrite(content)
	return err == nil
}

// included is the option of a line that includes a file, -r or -c, and its value.
func included(content string) (option, value string) {
	words := strings.Fields(content)
	name, value, attached := strings.Cut(words[0], "=")
	if len(words[0]) > 2 && words[0][0] == '-' && words[0][1] != '-' { // -rother.txt
		name, value, attached = words[0][:2], words[0][2:], true
	}
	if !attached {
		value = strings.Join(words[1:], " ")
	}
	switch name {
	case "-r", "--requirement":
		return "-r", value
	case "-c", "--constraint":
		return "-c", value
	}
	return "", ""
}

// read reads a file of the folder.
func (g *gatherer) read(name string, above []string) (string, error) {
	by := ""
	if len(above) > 0 {
		by = above[len(above)-1] + ": "
	}
	for _, one := range above {
		if one == name {
			return "", fmt.Errorf("%s%s includes itself, by way of %s; take one of these lines out", by, name, strings.Join(append(above, name), " -> "))
		}
	}
	if len(above) > maxNested {
		return "", fmt.Errorf("%s%s: more than %d files lead to this one; include it from the first", by, name, maxNested)
	}
	f, err := g.folder.Open(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("%sthere is no file %s", by, name)
	case err != nil:
		return "", fmt.Errorf("%s%s cannot be read, or is outside of the code folder: %w", by, name, err)
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s%s is no file", by, name)
	}
	data, err := io.ReadAll(io.LimitReader(f, int64(g.left)+1))
	if err != nil {
		return "", fmt.Errorf("%sreading %s: %w", by, name, err)
	}
	if g.left -= len(data); g.left < 0 {
		return "", fmt.Errorf("%s%s: the requirements have more than %d bytes; leave some out, or put the packages into an image", by, name, g.limit)
	}
	if len(above) == 0 {
		g.first = string(data)
	}
	return string(data), nil
}
