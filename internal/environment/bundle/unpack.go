package bundle

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// Unpack lays an environment out as the new folder dst from a tar that [Pack]
// made: all of it or, on an error, none of it. Nothing can be written outside
// dst. The parent of dst must exist, dst must not. A crash may leave a folder
// beside dst whose name begins with a dot.
func Unpack(ctx context.Context, in io.Reader, dst string) error {
	if _, err := os.Lstat(dst); err == nil {
		return fmt.Errorf("unpacking the environment: %s: %w", dst, fs.ErrExist)
	}
	temp, err := os.MkdirTemp(filepath.Dir(dst), ".new-")
	if err != nil {
		return fmt.Errorf("unpacking the environment: %w", err)
	}
	defer func() { _ = os.RemoveAll(temp) }() // does nothing once it is renamed
	if err := unpackInto(ctx, in, temp); err != nil {
		return fmt.Errorf("unpacking the environment: %w", err)
	}
	if err := os.Rename(temp, dst); err != nil {
		return fmt.Errorf("unpacking the environment: %w", err)
	}
	return nil
}

func unpackInto(ctx context.Context, in io.Reader, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	archive := tar.NewReader(in)
	times := map[string]time.Time{} // of folders, once nothing more goes into them
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("reading the archive: %w", err)
		}
		if err := unpackEntry(root, h, archive, times); err != nil {
			return err
		}
	}
	// What was cut off between two entries is told by the end of what is read.
	if _, err := io.Copy(io.Discard, in); err != nil {
		return fmt.Errorf("reading the archive: %w", err)
	}
	if len(times) == 0 {
		return errors.New("the archive is empty")
	}
	for name, at := range times {
		if err := root.Chtimes(name, at, at); err != nil {
			return err
		}
	}
	return os.Chmod(dir, 0o755)
}

func unpackEntry(root *os.Root, h *tar.Header, content io.Reader, times map[string]time.Time) error {
	name := strings.TrimSuffix(h.Name, "/")
	if name == "" || name == "." || path.Clean(name) != name || !filepath.IsLocal(name) {
		return fmt.Errorf("the archive's entry %q is not allowed", h.Name)
	}
	// Below a link the entry would lie elsewhere than its name says.
	if _, known := times[path.Dir(name)]; !known && path.Dir(name) != "." {
		return fmt.Errorf("the archive's entry %q lies in no folder of the archive", h.Name)
	}
	switch h.Typeflag {
	case tar.TypeDir:
		times[name] = h.ModTime
		return root.Mkdir(name, 0o755)
	case tar.TypeSymlink:
		return root.Symlink(h.Linkname, name)
	case tar.TypeReg:
		for key := range h.PAXRecords {
			// A KiB of an archive would fill the disk.
			if strings.HasPrefix(key, "GNU.sparse.") {
				return fmt.Errorf("the archive's entry %q has holes that are not sent: send it whole", h.Name)
			}
		}
		return unpackFile(root, h, name, content)
	}
	return fmt.Errorf("the archive's entry %q is neither a file, a folder nor a link", h.Name)
}

func unpackFile(root *os.Root, h *tar.Header, name string, content io.Reader) error {
	mode := fs.FileMode(0o644)
	if h.Mode&0o111 != 0 {
		mode = 0o755
	}
	out, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, content)
	if err = errors.Join(err, out.Chmod(mode), out.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return root.Chtimes(name, h.ModTime, h.ModTime)
}
