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
	"regexp"
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

// released matches the names of files of any release, those included that a run that was ended has
// left half written.
var released = regexp.MustCompile(`^muster-[0-9].*(-licenses\.txt|\.tgz|\.tar\.gz|\.zip|\.oci\.tar|\.whl)(\.part)?$`)

// files returns the paths of the files of releases in the folder, in order: those of this version
// apart from all others.
func (m *maker) files() (own, others []string, err error) {
	entries, err := os.ReadDir(m.out)
	if err != nil {
		return nil, nil, fmt.Errorf("looking for files of releases: %w", err)
	}
	for _, entry := range entries {
		path := filepath.Join(m.out, entry.Name())
		switch {
		case !entry.Type().IsRegular() || !released.MatchString(entry.Name()):
		case m.isOwn(entry.Name()):
			own = append(own, path)
		default:
			others = append(others, path)
		}
	}
	return own, others, nil
}

// isOwn reports whether a name is one that a part of this version has. The name of a version before
// a release begins with that of the release.
func (m *maker) isOwn(name string) bool {
	if strings.HasPrefix(name, "muster-"+m.version.Python+"-py3-") {
		return strings.HasSuffix(name, ".whl")
	}
	rest, ok := strings.CutPrefix(name, "muster-"+m.version.Semantic)
	return ok && slices.Contains(suffixes(), rest)
}

// suffixes are what follows the version in the names of all files but the wheel.
func suffixes() []string {
	out := []string{"-licenses.txt", ".tgz", ".oci.tar", "-amd64.oci.tar"}
	for _, t := range program.EveryTarget {
		out = append(out, "-"+t.String()+".tar.gz", "-"+t.String()+".zip")
	}
	return out
}

// clear removes the files of other versions, so that the checksums are those of one.
func (m *maker) clear() error {
	_, others, err := m.files()
	if err != nil {
		return err
	}
	for _, path := range others {
		if err := os.Remove(path); err != nil {
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
	files, _, err := m.files()
	if err != nil {
		return err
	}
	_, err = m.write("SHA256SUMS", func(out io.Writer) error {
		for _, path := range files {
			sum, err := digest(path)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(out, "%x  %s\n", sum, filepath.Base(path)); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

// digest returns the SHA-256 digest of a file.
func digest(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	_, err = io.Copy(sum, file)
	return sum.Sum(nil), errors.Join(err, file.Close())
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
