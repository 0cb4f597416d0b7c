package environment

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/muster-dev/muster/internal/environment/source"
)

// here begins each line of a local package in the text that [Normalise] returns.
const here = "./"

var (
	// pathName is one name of the path of a local package.
	pathName = regexp.MustCompile(`^[A-Za-z0-9_.][A-Za-z0-9_.+-]*$`)
	// localPackage is a path, and extras.
	localPackage = regexp.MustCompile(`^([^\[\]]+?) ?(?:\[([A-Za-z0-9._, -]*)\])?$`)
)

// isLocal reports whether pip takes the head of a requirement for a path.
func isLocal(head string) bool {
	found := localPackage.FindStringSubmatch(head)
	if found == nil || strings.ContainsAny(found[1], "@:") {
		return false
	}
	return found[1][0] == '.' || strings.Contains(found[1], "/") || isArchive(found[1])
}

// writeLocal writes the path of a package in the code folder, with extras.
func writeLocal(head string) (string, error) {
	found := localPackage.FindStringSubmatch(head)
	at := found[1]
	if path.IsAbs(at) || at[0] == '~' {
		return "", fmt.Errorf("%q is a path of one machine; give the path of a package within the code folder, such as ./pkg", head)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(at, "/"), "/") {
		switch {
		case name == "..":
			return "", fmt.Errorf("%q leads out of the code folder, whose packages alone are built; put the package into it", head)
		case name != "" && !pathName.MatchString(name):
			return "", fmt.Errorf("%q has a name that is not allowed in the path of a package; letters, digits, ., _, + and - are", head)
		}
	}
	extras := writeExtras(found[2])
	if extras != "" {
		if parts := named.FindStringSubmatch("x" + extras); parts == nil || parts[3] != "" {
			return "", fmt.Errorf("%q: the extras are not names; write them such as ./pkg[gpu,test]", head)
		}
	}
	// The path stays apart from the rest, so that ./a.whl[x] is read as pip does.
	return here + path.Clean(at) + extras, nil
}

// Locals are the paths of the local packages in a text that [Normalise] returned, each
// once, in order.
func Locals(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if at, ok := localOf(line); ok && !slices.Contains(out, at) {
			out = append(out, at)
		}
	}
	return out
}

// localOf is the path of a line's local package.
func localOf(line string) (string, bool) {
	rest, ok := strings.CutPrefix(line, here)
	if !ok {
		return "", false
	}
	if end := strings.IndexAny(rest, "[ \n"); end >= 0 {
		rest = rest[:end]
	}
	return rest, true
}

// CheckLocal checks that pip can install a part of the code: an archive, or a folder with
// a build of its own.
func CheckLocal(at string, part source.Part) error {
	switch {
	case !part.Folder && !isArchive(path.Base(at)):
		return fmt.Errorf("%s is no archive of a package; give a wheel, a source archive or a folder with pyproject.toml or setup.py", at)
	case part.Folder && !slices.Contains(part.Files, "pyproject.toml") && !slices.Contains(part.Files, "setup.py"):
		return fmt.Errorf("the folder %s has neither pyproject.toml nor setup.py, so it is no package; give the folder that has", at)
	}
	return nil
}

// unread is the error for local packages of a request without their contents.
func unread(locals []string) error {
	return fmt.Errorf("requirements: ./%s is a package of the code folder; only training jobs have code: start one with muster run --requirements FILE from the code folder, or, for a pipeline, name a package of an index", locals[0])
}

// secretWord begins the part of a key that a Secret adds.
const secretWord = "secret="

// Contents are the inputs of a key beside the text that [Normalise] returned: the name of the
// Secret, and the digests of local packages. Packages that the request does not have are refused.
func (r Request) Contents(text string) ([]string, error) {
	var out []string
	if r.Secret != "" {
		out = append(out, secretWord+r.Secret)
	}
	locals := Locals(text)
	for _, at := range locals {
		digest := r.Packages[at]
		if digest == "" {
			return nil, unread(locals)
		}
		out = append(out, at+"="+digest)
	}
	return out, nil
}

// Packages are the folders that a build needs for the local packages of a text.
type Packages struct {
	// Paths are where they are in the code, in order, and Folders the names of the folders that hold
	// them in the build, each alone. Names are their names in it.
	Paths, Folders, Names []string
}

// Place gives each local package of a text a folder, and rewrites the text with these paths, below
// a folder of the build.
func Place(text, below string) (string, Packages) {
	var p Packages
	for i, at := range Locals(text) {
		name := path.Base(at)
		if name == "." {
			name = "code"
		}
		p.Paths, p.Folders, p.Names = append(p.Paths, at), append(p.Folders, fmt.Sprint(i)), append(p.Names, name)
	}
	var out strings.Builder
	for line := range strings.Lines(text) {
		if at, ok := localOf(line); ok {
			i := slices.Index(p.Paths, at)
			line = path.Join(below, p.Folders[i], p.Names[i]) + strings.TrimPrefix(line, here+at)
			if !path.IsAbs(below) {
				line = here + line
			}
		}
		out.WriteString(line)
	}
	return out.String(), p
}
