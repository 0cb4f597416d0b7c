package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/muster-dev/muster/hack/dist/internal/archive"
	"github.com/muster-dev/muster/hack/dist/internal/license"
	"github.com/muster-dev/muster/hack/dist/internal/program"
	"github.com/muster-dev/muster/hack/dist/internal/revision"
)

// maker makes the parts of one release, and what several parts share once.
type maker struct {
	root, out string
	version   revision.Revision
	say       io.Writer
	builder   program.Builder

	programs map[program.Target]string
	notices  []archive.File
}

// made is a part that was made.
type made struct {
	name string
	size int64
	took time.Duration
}

func newMaker(root, out string, version revision.Revision, say io.Writer) (*maker, error) {
	out, err := filepath.Abs(out)
	if err != nil {
		return nil, fmt.Errorf("finding the folder to write to: %w", err)
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, fmt.Errorf("making the folder to write to: %w", err)
	}
	return &maker{
		root: root, out: out, version: version, say: say,
		builder:  program.Builder{Root: root, Work: filepath.Join(root, ".cache", "dist"), Version: version.Program()},
		programs: map[program.Target]string{},
	}, nil
}

// make makes the parts, then the checksums of all files that are there.
func (m *maker) make(ctx context.Context, chosen []part) error {
	_, _ = fmt.Fprintf(m.say, "muster: making version %s in %s\n", m.version.Program(), m.out)
	if err := m.clear(); err != nil {
		return err
	}
	var table []made
	for _, p := range chosen {
		start := time.Now()
		_, _ = fmt.Fprintf(m.say, "muster: %s: %s\n", p.name, p.about)
		path, err := p.make(ctx, m)
		if err != nil {
			return fmt.Errorf("making %s: %w", p.name, err)
		}
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("making %s: %w", p.name, err)
		}
		table = append(table, made{filepath.Base(path), info.Size(), time.Since(start)})
	}
	if err := m.checksums(); err != nil {
		return err
	}
	return m.print(table)
}

// clear removes the files of other versions, so that the checksums are those of one.
func (m *maker) clear() error {
	files, err := filepath.Glob(filepath.Join(m.out, "muster-*"))
	if err != nil {
		return fmt.Errorf("looking for files of other versions: %w", err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		if strings.HasPrefix(name, "muster-"+m.version.Semantic) || strings.HasPrefix(name, "muster-"+m.version.Python) {
			continue
		}
		if err := os.Remove(file); err != nil {
			return fmt.Errorf("removing a file of another version: %w", err)
		}
	}
	return nil
}

// program builds a program once.
func (m *maker) program(ctx context.Context, t program.Target) (string, error) {
	if path, ok := m.programs[t]; ok {
		return path, nil
	}
	start := time.Now()
	_, _ = fmt.Fprintf(m.say, "muster: compiling for %s (the first time takes minutes)\n", t)
	path, err := m.builder.Build(ctx, t)
	if err != nil {
		return "", err
	}
	_, _ = fmt.Fprintf(m.say, "muster: compiled for %s in %.0f s\n", t, time.Since(start).Seconds())
	m.programs[t] = path
	return path, nil
}

// licences are the files that come along with every program: Muster's licence, and
// those of the modules of all programs.
func (m *maker) licences(ctx context.Context) ([]archive.File, error) {
	if m.notices != nil {
		return m.notices, nil
	}
	var programs []license.Program
	for _, t := range program.EveryTarget {
		p := license.Program{Packages: []string{"./cmd/muster"}, Tags: t.Tags(), Environment: t.Environment()}
		if t.OS == "linux" {
			p.Packages = append(p.Packages, "./cmd/muster-shim", "./cmd/muster-worker")
		}
		programs = append(programs, p)
	}
	list, err := license.List(ctx, m.root, programs)
	if err != nil {
		return nil, fmt.Errorf("listing the licences: %w", err)
	}
	var text bytes.Buffer
	if err := license.Write(&text, list); err != nil {
		return nil, fmt.Errorf("writing the licences: %w", err)
	}
	own, err := os.ReadFile(filepath.Join(m.root, "LICENSE"))
	if err != nil {
		return nil, fmt.Errorf("reading Muster's licence: %w", err)
	}
	m.notices = []archive.File{{Name: "LICENSE", Content: own}, {Name: "LICENSES-OF-MODULES.txt", Content: text.Bytes()}}
	return m.notices, nil
}

// checksums writes SHA256SUMS, which `sha256sum -c` reads.
func (m *maker) checksums() error {
	files, err := filepath.Glob(filepath.Join(m.out, "muster-*"))
	if err != nil {
		return fmt.Errorf("looking for files to sum up: %w", err)
	}
	slices.Sort(files)
	_, err = m.write("SHA256SUMS", func(out io.Writer) error {
		for _, path := range files {
			file, err := os.Open(path)
			if err != nil {
				return err
			}
			sum := sha256.New()
			if _, err = io.Copy(sum, file); errors.Join(err, file.Close()) != nil {
				return err
			}
			if _, err := fmt.Fprintf(out, "%x  %s\n", sum.Sum(nil), filepath.Base(path)); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

// print prints the table.
func (m *maker) print(table []made) error {
	out := tabwriter.NewWriter(m.say, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(out, "FILE\tMB\tSECONDS")
	for _, row := range table {
		_, _ = fmt.Fprintf(out, "%s\t%.1f\t%.0f\n", row.name, float64(row.size)/1e6, row.took.Seconds())
	}
	return out.Flush()
}
