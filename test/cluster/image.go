package cluster

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Image is a container image made of files of this machine; there is no
// registry. Its name needs a tag other than latest, else a kubelet tries to
// pull it.
type Image struct {
	// Name as pods write it, such as muster.test/busybox:1.
	Name string
	// Files in the order in which they are added.
	Files []File
	// Env, Entrypoint and Command are the image's defaults.
	Env, Entrypoint, Command []string
	// User and Dir are whom and where its programs run as; empty: root, and /.
	User, Dir string
}

// File is a file, a folder with all that is in it, or a symbolic link.
type File struct {
	// To is where it lies in the image, absolute.
	To string
	// From is where it lies on this machine; empty for a link or an empty
	// folder.
	From string
	// Link is what a symbolic link leads to.
	Link string
	// Content is a small file written down here.
	Content string
	// Skip leaves out files below From; nil leaves out none.
	Skip func(path string, entry fs.DirEntry) bool
}

// cached returns a file with the image in folder, and writes it if none is
// there yet that was made of the very same files.
func (i Image) cached(folder string) (string, error) {
	key, err := i.fingerprint()
	if err != nil {
		return "", fmt.Errorf("looking at the files of the image %s: %w", i.Name, err)
	}
	path := filepath.Join(folder, key+".tar")
	now := time.Now()
	if os.Chtimes(path, now, now) == nil {
		return path, nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", fmt.Errorf("making the folder of images: %w", err)
	}
	work, err := os.MkdirTemp(folder, "tmp.")
	if err != nil {
		return "", fmt.Errorf("making a folder for the image %s: %w", i.Name, err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	if err := i.Write(filepath.Join(work, "image.tar")); err != nil {
		return "", err
	}
	if err := os.Rename(filepath.Join(work, "image.tar"), path); err != nil {
		return "", fmt.Errorf("keeping the image %s: %w", i.Name, err)
	}
	return path, prune(folder, now.Add(-keptFor))
}

// Images are kept while they are among the last that were used, or were used
// not long ago: each binary that is tested makes another one of gigabytes.
const (
	keptImages = 8
	keptFor    = time.Hour
)

// prune removes the images of a folder that are not among the last ones used
// and were not used since a time.
func prune(folder string, since time.Time) error {
	paths, err := filepath.Glob(filepath.Join(folder, "*.tar"))
	if err != nil {
		return fmt.Errorf("listing the images in %s: %w", folder, err)
	}
	used := map[string]time.Time{}
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil {
			used[path] = info.ModTime()
		}
	}
	slices.SortFunc(paths, func(a, b string) int { return used[b].Compare(used[a]) })
	for _, path := range paths[min(keptImages, len(paths)):] {
		if !used[path].Before(since) {
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing an image that is not used any more: %w", err)
		}
	}
	return nil
}

// fingerprint is another one when the image would be, as far as names, sizes
// and times of files tell.
func (i Image) fingerprint() (string, error) {
	var all strings.Builder
	fmt.Fprintf(&all, "%q %q %q %q %q %q\n", i.Name, i.Env, i.Entrypoint, i.Command, i.User, i.Dir)
	for _, file := range i.Files {
		fmt.Fprintf(&all, "%q %q %q %q\n", file.To, file.From, file.Link, file.Content)
		if file.From == "" {
			continue
		}
		err := file.walk(func(_, to string, entry fs.DirEntry) error {
			info, err := entry.Info()
			if err == nil {
				fmt.Fprintf(&all, "%q %d %d %s\n", to, info.Size(), info.ModTime().UnixNano(), info.Mode())
			}
			return err
		})
		if err != nil {
			return "", err
		}
	}
	sum := sha256.Sum256([]byte(all.String()))
	return hex.EncodeToString(sum[:8]), nil
}

// Write writes the image to path as a tar of an OCI layout, which
// containerd's ctr images import reads.
func (i Image) Write(path string) error {
	_, err := i.write(path)
	return err
}

// Pinned is the image by a name that says what is in it: its repository's, and the
// digest of its manifest, as a registry would have it.
func (i Image) Pinned() (Image, error) {
	folder, err := os.MkdirTemp("", "muster-pinned-")
	if err != nil {
		return i, fmt.Errorf("making a folder for the image %s: %w", i.Name, err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	manifest, err := i.write(filepath.Join(folder, "image.tar"))
	if err != nil {
		return i, err
	}
	repository := i.Name
	if colon := strings.LastIndexByte(i.Name, ':'); colon > strings.LastIndexByte(i.Name, '/') {
		repository = i.Name[:colon]
	}
	i.Name = repository + "@" + manifest.Digest
	return i, nil
}

// write writes the image to path and returns its manifest's descriptor.
func (i Image) write(path string) (manifest descriptor, err error) {
	out, err := os.Create(path)
	if err != nil {
		return manifest, fmt.Errorf("writing the image %s: %w", i.Name, err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	layer, err := os.CreateTemp(filepath.Dir(path), "layer")
	if err != nil {
		return manifest, fmt.Errorf("writing the image %s: %w", i.Name, err)
	}
	defer func() { _ = os.Remove(layer.Name()); _ = layer.Close() }()
	sum := sha256.New()
	if err := i.layer(io.MultiWriter(layer, sum)); err != nil {
		return manifest, fmt.Errorf("writing the files of the image %s: %w", i.Name, err)
	}
	size, err := layer.Seek(0, io.SeekCurrent)
	if err != nil {
		return manifest, fmt.Errorf("writing the image %s: %w", i.Name, err)
	}
	if _, err := layer.Seek(0, io.SeekStart); err != nil {
		return manifest, fmt.Errorf("reading back the image %s: %w", i.Name, err)
	}
	blob := descriptor{MediaType: "application/vnd.oci.image.layer.v1.tar", Digest: digest(sum.Sum(nil)), Size: size}
	return i.layout(tar.NewWriter(out), layer, blob)
}

// descriptor names a blob, as OCI does.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

func digest(sum []byte) string { return "sha256:" + hex.EncodeToString(sum) }

func (d descriptor) path() string { return "blobs/" + strings.Replace(d.Digest, ":", "/", 1) }

// layout writes the layer, the configuration, the manifest and the index, and returns
// the manifest's descriptor.
func (i Image) layout(out *tar.Writer, layer io.Reader, blob descriptor) (manifest descriptor, err error) {
	if err := put(out, blob.path(), blob.Size, layer); err != nil {
		return manifest, err
	}
	config, err := putJSON(out, "application/vnd.oci.image.config.v1+json", map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Env": i.Env, "Entrypoint": i.Entrypoint, "Cmd": i.Command, "User": i.User, "WorkingDir": i.Dir},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{blob.Digest}},
	})
	if err != nil {
		return manifest, err
	}
	manifest, err = putJSON(out, "application/vnd.oci.image.manifest.v1+json", map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": []descriptor{blob},
	})
	if err != nil {
		return manifest, err
	}
	manifest.Annotations = map[string]string{"io.containerd.image.name": i.Name}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "manifests": []descriptor{manifest}})
	if err != nil {
		return manifest, err
	}
	if err := put(out, "index.json", int64(len(index)), strings.NewReader(string(index))); err != nil {
		return manifest, err
	}
	version := `{"imageLayoutVersion":"1.0.0"}`
	if err := put(out, "oci-layout", int64(len(version)), strings.NewReader(version)); err != nil {
		return manifest, err
	}
	return manifest, out.Close()
}

func putJSON(out *tar.Writer, mediaType string, value any) (descriptor, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return descriptor{}, err
	}
	sum := sha256.Sum256(data)
	blob := descriptor{MediaType: mediaType, Digest: digest(sum[:]), Size: int64(len(data))}
	return blob, put(out, blob.path(), blob.Size, strings.NewReader(string(data)))
}

func put(out *tar.Writer, name string, size int64, content io.Reader) error {
	if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644}); err != nil {
		return err
	}
	_, err := io.Copy(out, content)
	return err
}
