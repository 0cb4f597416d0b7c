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
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
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

// The images that every node has.
const (
	pauseImage = "muster.test/pause:1"
	// BusyboxImage is the name of [Busybox].
	BusyboxImage = "muster.test/busybox:1"
)

// Busybox is a small image with a shell and what belongs to it: one static
// program, under all its names.
func Busybox() (Image, error) {
	// The program itself lists its names; a test's deadline covers it.
	output, err := exec.Command("/bin/busybox", "--list").Output() //nolint:noctx
	if err != nil {
		return Image{}, fmt.Errorf("asking busybox for its names: %w", err)
	}
	image := Image{Name: BusyboxImage, Command: []string{"/bin/sh"}, Env: []string{"PATH=/bin"}}
	image.Files = append(image.Files,
		File{To: "/bin/busybox", From: "/bin/busybox"},
		File{To: "/tmp"}, File{To: "/root"}, File{To: "/etc/passwd", Content: "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n"},
		File{To: "/etc/group", Content: "root:x:0:\nnogroup:x:65534:\n"})
	for name := range strings.FieldsSeq(string(output)) {
		if name != "busybox" {
			image.Files = append(image.Files, File{To: "/bin/" + name, Link: "busybox"})
		}
	}
	return image, nil
}

// pause is what holds a pod's namespaces.
func pause() Image {
	return Image{Name: pauseImage, Files: []File{{To: "/bin/busybox", From: "/bin/busybox"}}, Entrypoint: []string{"/bin/busybox", "sleep", "2147483647"}}
}

// Write writes the image to path as a tar of an OCI layout, which
// containerd's ctr images import reads.
func (i Image) Write(path string) (err error) {
	out, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("writing the image %s: %w", i.Name, err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	layer, err := os.CreateTemp(filepath.Dir(path), "layer")
	if err != nil {
		return fmt.Errorf("writing the image %s: %w", i.Name, err)
	}
	defer func() { _ = os.Remove(layer.Name()); _ = layer.Close() }()
	sum := sha256.New()
	if err := i.layer(io.MultiWriter(layer, sum)); err != nil {
		return fmt.Errorf("writing the files of the image %s: %w", i.Name, err)
	}
	size, err := layer.Seek(0, io.SeekCurrent)
	if err != nil {
		return fmt.Errorf("writing the image %s: %w", i.Name, err)
	}
	if _, err := layer.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("reading back the image %s: %w", i.Name, err)
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

// layout writes the layer, the configuration, the manifest and the index.
func (i Image) layout(out *tar.Writer, layer io.Reader, blob descriptor) error {
	if err := put(out, blob.path(), blob.Size, layer); err != nil {
		return err
	}
	config, err := putJSON(out, "application/vnd.oci.image.config.v1+json", map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Env": i.Env, "Entrypoint": i.Entrypoint, "Cmd": i.Command},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{blob.Digest}},
	})
	if err != nil {
		return err
	}
	manifest, err := putJSON(out, "application/vnd.oci.image.manifest.v1+json", map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": []descriptor{blob},
	})
	if err != nil {
		return err
	}
	manifest.Annotations = map[string]string{"io.containerd.image.name": i.Name}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "manifests": []descriptor{manifest}})
	if err != nil {
		return err
	}
	if err := put(out, "index.json", int64(len(index)), strings.NewReader(string(index))); err != nil {
		return err
	}
	version := `{"imageLayoutVersion":"1.0.0"}`
	if err := put(out, "oci-layout", int64(len(version)), strings.NewReader(version)); err != nil {
		return err
	}
	return out.Close()
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
