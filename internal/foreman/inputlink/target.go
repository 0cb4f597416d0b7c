package inputlink

import (
	"path"
	"slices"
	"strings"

	"github.com/muster-dev/muster/internal/foreman/shift"
)

// Places are the paths by which a program knows the files of a datum.
type Places struct {
	// Folder is the folder of the datum.
	Folder string
	// Mount is the folder in which inputs and output appear by their names; empty: there is none.
	Mount string
}

// parts are the names of a path, without empty ones and dots.
func parts(text string) []string {
	return slices.DeleteFunc(strings.Split(text, "/"), func(name string) bool { return name == "" || name == "." })
}

// below returns the names of an absolute path below a folder.
func below(names []string, folder string) ([]string, bool) {
	top := parts(folder)
	if folder == "" || len(names) < len(top) || !slices.Equal(names[:len(top)], top) {
		return nil, false
	}
	return names[len(top):], true
}

// Of returns the target of a link whose path in the output is name: an input path, or, for an
// absolute target within the output, the same target as a relative path. Both are empty for other
// targets. Of does not check whether the path exists.
func (p Places) Of(name, target string) (input, within string) {
	names, up := parts(target), strings.Count(name, "/")
	if !strings.HasPrefix(target, "/") {
		// Only leading dots may lead out of the output: dots after a name, which may be a link, have an
		// unknown target.
		for range up + 1 {
			if len(names) == 0 || names[0] != ".." {
				return "", ""
			}
			names = names[1:]
		}
		return in(names), ""
	}
	at, shown := below(names, p.Mount)
	if !shown {
		var ok bool
		if at, ok = below(names, p.Folder); !ok {
			return "", ""
		}
		if input := in(at); input != "" {
			return input, ""
		}
	}
	switch {
	case len(at) == 0:
		return "", ""
	case at[0] == shift.OutFolder:
		return "", strings.Repeat("../", up) + path.Join(append([]string{"."}, at[1:]...)...)
	case shown:
		return strings.Join(at, "/"), ""
	}
	return "", ""
}

// in returns the input path of names in the folder of a datum; empty: they are no input's.
func in(names []string) string {
	if len(names) < 2 || names[0] != shift.InFolder {
		return ""
	}
	return strings.Join(names[1:], "/")
}

// Plain returns the target by which a link to an input travels.
func Plain(name, input string) string {
	return strings.Repeat("../", strings.Count(name, "/")+1) + shift.InFolder + "/" + input
}
