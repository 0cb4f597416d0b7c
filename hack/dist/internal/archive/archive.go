package archive

import (
	"archive/tar"
	"archive/zip"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"
)

// File is one file in an archive.
type File struct {
	// Name is its path there, with slashes.
	Name string
	// From is the file on this machine that is copied; empty: Content is written.
	From    string
	Content []byte
	// Executable gives it mode 0755 instead of 0644.
	Executable bool
}

func (f File) mode() fs.FileMode {
	if f.Executable {
		return 0o755
	}
	return 0o644
}

// Open returns the content and its length in bytes.
func (f File) Open() (io.ReadCloser, int64, error) {
	if f.From == "" {
		return io.NopCloser(strings.NewReader(string(f.Content))), int64(len(f.Content)), nil
	}
	file, err := os.Open(f.From)
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	return file, info.Size(), nil
}

func (f File) copyTo(out io.Writer) error {
	in, _, err := f.Open()
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, in.Close())
}

// Tar writes files as a tar, each with the time at.
func Tar(to io.Writer, files []File, at time.Time) error {
	out := tar.NewWriter(to)
	for _, file := range files {
		if err := tarOne(out, file, at); err != nil {
			return fmt.Errorf("archiving %s: %w", file.Name, err)
		}
	}
	return out.Close()
}

func tarOne(out *tar.Writer, file File, at time.Time) error {
	in, size, err := file.Open()
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	header := &tar.Header{Typeflag: tar.TypeReg, Name: file.Name, Size: size, Mode: int64(file.mode()), ModTime: at, Format: tar.FormatUSTAR}
	if err := out.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return err
}

// Gzip compresses what write writes. The header has no name, and no time but zero.
func Gzip(to io.Writer, write func(io.Writer) error) error {
	out, err := gzip.NewWriterLevel(to, gzip.BestCompression)
	if err != nil {
		return err
	}
	return errors.Join(write(out), out.Close())
}

// TarGz writes files as a compressed tar, each with the time at.
func TarGz(to io.Writer, files []File, at time.Time) error {
	return Gzip(to, func(out io.Writer) error { return Tar(out, files, at) })
}

// Zip writes files as a zip, each with the time at.
func Zip(to io.Writer, files []File, at time.Time) error {
	out := zip.NewWriter(to)
	out.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(w, flate.BestCompression)
	})
	for _, file := range files {
		header := &zip.FileHeader{Name: file.Name, Method: zip.Deflate, Modified: at}
		header.SetMode(file.mode())
		entry, err := out.CreateHeader(header)
		if err == nil {
			err = file.copyTo(entry)
		}
		if err != nil {
			return fmt.Errorf("archiving %s: %w", file.Name, err)
		}
	}
	return out.Close()
}
