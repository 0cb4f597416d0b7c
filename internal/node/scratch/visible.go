package scratch

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/muster-dev/muster/internal/osfile"
)

// visible are the paths in hidden folders that containers need, outer ones first and none twice.
func (s *Scratch) visible(hidden []string, environment string) []string {
	needed := append([]string{s.options.DataDir}, s.options.Programs...)
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		needed = append(needed, prefix(dir))
	}
	if environment != "" {
		needed = append(needed, environment)
	}
	for _, path := range slices.Clone(needed) {
		if base := interpreter(path); base != "" {
			needed = append(needed, base)
		}
	}
	var all []string
	for _, path := range needed {
		// Both the path and the target of its links may lie in a hidden folder.
		for _, at := range []string{path, resolved(path)} {
			if filepath.IsAbs(at) && inOne(at, hidden) && !slices.Contains(hidden, at) {
				all = append(all, filepath.Clean(at))
			}
		}
	}
	slices.Sort(all)
	return slices.CompactFunc(all, func(outer, path string) bool { return path == outer || strings.HasPrefix(path, outer+"/") })
}

// prefix is the folder of the installation whose programs are in a folder.
func prefix(dir string) string {
	dir = filepath.Clean(dir)
	if filepath.Base(dir) == "bin" && !slices.ContainsFunc(hiding, func(h struct{ path, name string }) bool { return h.path == filepath.Dir(dir) }) {
		return filepath.Dir(dir)
	}
	return dir
}

// mostSettings is the most bytes of an environment's pyvenv.cfg. Its user wrote it, and may have put
// anything in its place.
const mostSettings = 64 << 10

// interpreter is the installation that a Python environment was made of; empty: it is none.
func interpreter(environment string) string {
	in, err := os.OpenRoot(environment + "/.") // a pipe is not waited for
	if err != nil {
		return ""
	}
	defer func() { _ = in.Close() }()
	text, err := osfile.ReadRegular(in, "pyvenv.cfg", mostSettings)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(line, "="); strings.TrimSpace(name) == "home" {
			return prefix(strings.TrimSpace(value))
		}
	}
	return ""
}

// resolved is the target of a path, if it is there.
func resolved(path string) string {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	return target
}

// inOne reports whether a path is there, and in one of these folders.
func inOne(path string, folders []string) bool {
	within := slices.ContainsFunc(folders, func(dir string) bool { return strings.HasPrefix(path, dir+"/") })
	if !within {
		return false
	}
	_, err := os.Stat(path)
	return err == nil
}
