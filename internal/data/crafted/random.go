package crafted

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A tree is a map. A file is its content by its path, a program its content by its path and a star,
// a link an empty string by "path -> target".

// Random makes a tree over few names, so that two trees have different kinds at the same paths, and
// names that are one for a file system that ignores case.
func Random(r *rand.Rand) map[string]string {
	m := map[string]string{}
	var fill func(prefix string, depth int)
	fill = func(prefix string, depth int) {
		for _, name := range []string{"a", "a-", "b", "B"} {
			path := prefix + name
			switch k := r.IntN(7); {
			case k == 0:
				m[path] = fmt.Sprint("content ", r.IntN(3))
			case k == 1:
				m[path+"*"] = fmt.Sprint("content ", r.IntN(3))
			case k == 2:
				up := strings.Repeat("../", r.IntN(strings.Count(path, "/")+1))
				m[path+" -> "+up+[]string{"a", "b", "a/b", "b/a", "none"}[r.IntN(5)]] = ""
			case k <= 4 && depth < 3:
				fill(path+"/", depth+1)
			}
		}
	}
	for len(m) == 0 {
		fill("", 0)
	}
	return m
}

// Parse splits the name of an entry.
func Parse(name string) (path, target string, executable bool) {
	path, target, _ = strings.Cut(name, " -> ")
	path, executable = strings.CutSuffix(path, "*")
	return path, target, executable
}

// Plant makes a tree in an empty folder.
func Plant(folder string, m map[string]string) error {
	for name, content := range m {
		path, target, executable := Parse(name)
		at := filepath.Join(folder, path)
		err := os.MkdirAll(filepath.Dir(at), 0o755)
		switch {
		case err != nil:
		case target != "":
			err = os.Symlink(target, at)
		case executable:
			err = os.WriteFile(at, []byte(content), 0o755)
		default:
			err = os.WriteFile(at, []byte(content), 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Found is the tree in a folder. Folders without anything in them are left out.
func Found(folder string) (map[string]string, error) {
	m := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		if e.Type() == fs.ModeSymlink {
			target, err := os.Readlink(path)
			m[name+" -> "+target] = ""
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if info.Mode()&0o100 != 0 {
			name += "*"
		}
		content, err := os.ReadFile(path)
		m[name] = string(content)
		return err
	})
	return m, err
}

// Pack writes a tree as a tar.
func Pack(m map[string]string) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for name, content := range m {
		path, target, executable := Parse(name)
		h := &tar.Header{Name: path, Mode: 0o644, Size: int64(len(content)), Typeflag: tar.TypeReg}
		if executable {
			h.Mode = 0o755
		}
		if target != "" {
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, target, 0
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := io.WriteString(w, content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// Unpack is the tree in a tar. A path that comes twice is an error.
func Unpack(in io.Reader) (map[string]string, error) {
	m := map[string]string{}
	for t := tar.NewReader(in); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return m, nil
		}
		if err != nil {
			return nil, err
		}
		name, content := h.Name, []byte(nil)
		switch h.Typeflag {
		case tar.TypeDir:
			continue
		case tar.TypeSymlink:
			name += " -> " + h.Linkname
		default:
			if h.Mode&0o100 != 0 {
				name += "*"
			}
			if content, err = io.ReadAll(t); err != nil {
				return nil, err
			}
		}
		if _, twice := m[name]; twice {
			return nil, fmt.Errorf("%s comes twice in the tar", name)
		}
		m[name] = string(content)
	}
}

// Differ lists the differences between two trees; empty: they are equal.
func Differ(want, got map[string]string) string {
	var lines []string
	for name, content := range want {
		if found, ok := got[name]; !ok {
			lines = append(lines, "without "+name)
		} else if found != content {
			lines = append(lines, fmt.Sprintf("%s is %.100q, want %.100q", name, found, content))
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			lines = append(lines, "with "+name)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "; ")
}
