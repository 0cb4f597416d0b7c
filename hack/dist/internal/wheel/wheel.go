package wheel

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/muster-dev/muster/hack/dist/internal/archive"
)

// Wheel is a wheel to be written.
type Wheel struct {
	// Project is the folder with pyproject.toml and, in src, the package.
	Project string
	// Program is the executable; it is installed under its own name.
	Program string
	// Version is a version of PEP 440.
	Version string
	// Summary is one line about the whole.
	Summary string
	// Tags are the platforms, such as manylinux_2_28_x86_64.
	Tags []string
	// Licences are files that come along in the metadata.
	Licences []archive.File
	// Time is that of all files.
	Time time.Time
}

// Name returns the name that the file must have.
func (w Wheel) Name() string {
	return "muster-" + w.Version + "-py3-none-" + strings.Join(w.Tags, ".") + ".whl"
}

// Write writes the wheel.
func (w Wheel) Write(to io.Writer) error {
	files, err := w.files()
	if err != nil {
		return err
	}
	record := &strings.Builder{}
	info := w.info()
	for _, file := range files {
		if err := recordOne(record, file); err != nil {
			return err
		}
	}
	fmt.Fprintf(record, "%sRECORD,,\n", info)
	files = append(files, archive.File{Name: info + "RECORD", Content: []byte(record.String())})
	return archive.Zip(to, files, w.Time)
}

func (w Wheel) info() string { return "muster-" + w.Version + ".dist-info/" }

// files are all but RECORD; the metadata comes last, as the format recommends.
func (w Wheel) files() ([]archive.File, error) {
	project, description, err := readProject(w.Project)
	if err != nil {
		return nil, err
	}
	files, err := sources(filepath.Join(w.Project, "src"))
	if err != nil {
		return nil, err
	}
	files = append(files, archive.File{
		Name: "muster-" + w.Version + ".data/scripts/" + filepath.Base(w.Program), From: w.Program, Executable: true,
	})
	info, names := w.info(), []string(nil)
	for _, licence := range w.Licences {
		names = append(names, licence.Name)
		licence.Name = info + "licenses/" + licence.Name
		files = append(files, licence)
	}
	about := "Wheel-Version: 1.0\nGenerator: muster\nRoot-Is-Purelib: false\n"
	for _, tag := range w.Tags {
		about += "Tag: py3-none-" + tag + "\n"
	}
	return append(files,
		archive.File{Name: info + "METADATA", Content: []byte(project.metadata(w.Version, w.Summary, description, names))},
		archive.File{Name: info + "WHEEL", Content: []byte(about)},
		archive.File{Name: info + "entry_points.txt", Content: []byte(project.entryPoints())},
	), nil
}

// sources are the files of the Python package, without what Python compiled.
func sources(folder string) ([]archive.File, error) {
	var files []archive.File
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if entry.Name() == "__pycache__" || strings.HasSuffix(entry.Name(), ".egg-info") {
				return filepath.SkipDir
			}
			return nil
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		files = append(files, archive.File{Name: filepath.ToSlash(name), Content: content})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the Python package: %w", err)
	}
	return files, nil
}

// recordOne writes the line of RECORD for a file.
func recordOne(out io.Writer, file archive.File) error {
	in, size, err := file.Open()
	if err != nil {
		return fmt.Errorf("recording %s: %w", file.Name, err)
	}
	sum := sha256.New()
	_, err = io.Copy(sum, in)
	if err = errors.Join(err, in.Close()); err != nil {
		return fmt.Errorf("recording %s: %w", file.Name, err)
	}
	_, err = fmt.Fprintf(out, "%s,sha256=%s,%d\n", file.Name, base64.RawURLEncoding.EncodeToString(sum.Sum(nil)), size)
	return err
}
