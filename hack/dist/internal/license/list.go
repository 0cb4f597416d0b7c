package license

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Module is a linked module.
type Module struct {
	Path, Version string
	// Licences are SPDX identifiers, in order.
	Licences []string
	// Notices are the files with the words.
	Notices []Notice
}

// Notice is a file of a module.
type Notice struct{ Name, Text string }

// Program says what is linked: packages, and how the go command is told the target.
type Program struct {
	Packages    []string
	Tags        string
	Environment []string
}

// linked is one package, as `go list` tells of it.
type linked struct {
	Dir        string
	Standard   bool
	ImportPath string
	Module     *struct {
		Path, Version, Dir string
		Main               bool
		Replace            *struct{ Path, Version, Dir string }
	}
}

// List returns the modules that programs of the checkout in root link, by path, and
// with them the standard library. It fails where a licence is missing or unknown.
func List(ctx context.Context, root string, programs []Program) ([]Module, error) {
	folders := map[string]map[string]bool{}
	modules := map[string]Module{}
	where := map[string]string{}
	for _, program := range programs {
		err := each(ctx, root, program, func(l linked) {
			if l.Module == nil || l.Module.Main {
				return
			}
			m := Module{Path: l.Module.Path, Version: l.Module.Version}
			modules[m.Path], where[m.Path] = m, l.Module.Dir
			if folders[m.Path] == nil {
				folders[m.Path] = map[string]bool{}
			}
			for dir := l.Dir; strings.HasPrefix(dir, l.Module.Dir); dir = filepath.Dir(dir) {
				folders[m.Path][dir] = true
			}
		})
		if err != nil {
			return nil, err
		}
	}
	list := []Module{}
	var wrong []error
	for _, path := range slices.Sorted(maps.Keys(modules)) {
		m, err := read(modules[path], where[path], slices.Sorted(maps.Keys(folders[path])))
		wrong = append(wrong, err)
		list = append(list, m)
	}
	standard, err := standardLibrary(ctx, root)
	list = slices.Insert(list, 0, standard)
	return list, errors.Join(append(wrong, err)...)
}

// each tells of every package that a program links.
func each(ctx context.Context, root string, program Program, tell func(linked)) error {
	args := append([]string{"list", "-deps", "-tags", program.Tags, "-json=Dir,Standard,ImportPath,Module"}, program.Packages...)
	out, err := goCommand(ctx, root, program.Environment, args...)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(out))
	for {
		var one linked
		err := decoder.Decode(&one)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading what is linked: %w", err)
		}
		if !one.Standard {
			tell(one)
		}
	}
}

// standardLibrary is Go's, which every program links.
func standardLibrary(ctx context.Context, root string) (Module, error) {
	out, err := goCommand(ctx, root, nil, "env", "GOROOT", "GOVERSION")
	if err != nil {
		return Module{}, err
	}
	goroot, version, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return read(Module{Path: "std", Version: version}, goroot, []string{goroot})
}

// read reads the notices of a module out of folders.
func read(m Module, root string, folders []string) (Module, error) {
	for _, folder := range folders {
		entries, err := os.ReadDir(folder)
		if err != nil {
			return m, fmt.Errorf("looking for the licence of %s: %w", m.Path, err)
		}
		for _, entry := range entries {
			if entry.IsDir() || !isNotice(entry.Name()) {
				continue
			}
			text, err := os.ReadFile(filepath.Join(folder, entry.Name()))
			if err != nil {
				return m, fmt.Errorf("reading the licence of %s: %w", m.Path, err)
			}
			name, err := filepath.Rel(root, filepath.Join(folder, entry.Name()))
			if err != nil {
				return m, fmt.Errorf("reading the licence of %s: %w", m.Path, err)
			}
			m.Notices = append(m.Notices, Notice{filepath.ToSlash(name), string(text)})
		}
	}
	var err error
	m.Licences, err = identify(m)
	return m, err
}

// The first words of the names of licences, and of what lies beside them.
var (
	licences       = []string{"LICENSE", "LICENCE", "COPYING", "UNLICENSE"}
	besideLicences = []string{"NOTICE", "COPYRIGHT", "PATENTS"}
)

// isNotice reports whether a file's name is that of a licence or a notice.
func isNotice(name string) bool {
	if slices.Contains([]string{".go", ".c", ".h", ".s", ".py"}, filepath.Ext(name)) {
		return false
	}
	return slices.Contains(licences, firstWord(name)) || slices.Contains(besideLicences, firstWord(name))
}

// firstWord is LICENSE for License-MIT.txt.
func firstWord(name string) string {
	words := strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune(".-_", r) })
	if len(words) == 0 {
		return ""
	}
	return strings.ToUpper(words[0])
}

// Write writes the list and then every text, once for all modules that share it.
func Write(out io.Writer, list []Module) error {
	width := 0
	for _, m := range list {
		width = max(width, len(m.Path)+1+len(m.Version))
	}
	var text strings.Builder
	text.WriteString("Muster is licensed under the Apache License 2.0 (the file LICENSE). The programs link\nthese modules, under the licences named beside them; the texts are below.\n\n")
	shared := map[string][]string{}
	for _, m := range list {
		fmt.Fprintf(&text, "%-*s  %s\n", width, m.Path+" "+m.Version, strings.Join(m.Licences, ", "))
		for _, notice := range m.Notices {
			shared[notice.Text] = append(shared[notice.Text], m.Path+" "+m.Version+" ("+notice.Name+")")
		}
	}
	texts := slices.Collect(maps.Keys(shared))
	slices.SortFunc(texts, func(a, b string) int { return cmp.Compare(shared[a][0], shared[b][0]) })
	for _, words := range texts {
		fmt.Fprintf(&text, "\n%s\n%s\n\n%s\n", strings.Repeat("-", 80), strings.Join(shared[words], "\n"), strings.TrimSpace(words))
	}
	_, err := io.WriteString(out, text.String())
	return err
}

func goCommand(ctx context.Context, root string, env []string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = errors.Join(err, errors.New(strings.TrimSpace(string(exit.Stderr))))
	}
	if err != nil {
		return nil, fmt.Errorf("running go %s: %w", args[0], err)
	}
	return out, nil
}
