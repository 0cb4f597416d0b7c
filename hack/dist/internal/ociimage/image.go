package ociimage

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	specs "github.com/opencontainers/image-spec/specs-go"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/muster-dev/muster/hack/dist/internal/archive"
)

// User is whom the program runs as unless a pod says otherwise: no user of the
// machine, and the one that the Helm chart names.
const User = "65532:65532"

// Image is an image to be written.
type Image struct {
	// Name and Tag are how it is known once it was imported.
	Name, Tag string
	// Labels are org.opencontainers.image.*.
	Labels map[string]string
	// Programs are the entry points, by Go's name of the architecture, in order.
	Programs []Program
	// Licences are files that come along in /licenses.
	Licences []archive.File
	// Time is that of all files.
	Time time.Time
}

// Program is the program of one architecture.
type Program struct{ Arch, Path string }

// layout is a tar that is being written.
type layout struct {
	out  *tar.Writer
	at   time.Time
	have map[digest.Digest]bool
}

// Write writes the image. It needs room for a layer in the folder work.
func (i Image) Write(to io.Writer, work string) error {
	l := &layout{out: tar.NewWriter(to), at: i.Time, have: map[digest.Digest]bool{}}
	index := v1.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageIndex, Annotations: i.Labels}
	for _, program := range i.Programs {
		manifest, err := i.manifest(l, program, work)
		if err != nil {
			return fmt.Errorf("writing the image for %s: %w", program.Arch, err)
		}
		index.Manifests = append(index.Manifests, manifest)
	}
	image, err := l.json(v1.MediaTypeImageIndex, index)
	if err != nil {
		return fmt.Errorf("writing the image's index: %w", err)
	}
	image.Annotations = map[string]string{v1.AnnotationRefName: i.Tag, "io.containerd.image.name": i.Name + ":" + i.Tag}
	top := v1.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageIndex, Manifests: []v1.Descriptor{image}}
	if err := l.file(v1.ImageIndexFile, top); err != nil {
		return fmt.Errorf("writing the layout's index: %w", err)
	}
	if err := l.file(v1.ImageLayoutFile, v1.ImageLayout{Version: v1.ImageLayoutVersion}); err != nil {
		return fmt.Errorf("writing the layout's version: %w", err)
	}
	return l.out.Close()
}

// manifest writes the layer, the configuration and the manifest of one architecture.
func (i Image) manifest(l *layout, program Program, work string) (v1.Descriptor, error) {
	layer, unpacked, err := i.layer(l, program, work)
	if err != nil {
		return v1.Descriptor{}, err
	}
	platform := v1.Platform{OS: "linux", Architecture: program.Arch}
	config, err := l.json(v1.MediaTypeImageConfig, v1.Image{
		Created: &i.Time, Platform: platform,
		Config:  v1.ImageConfig{User: User, Entrypoint: []string{"/muster"}, Labels: i.Labels},
		RootFS:  v1.RootFS{Type: "layers", DiffIDs: []digest.Digest{unpacked}},
		History: []v1.History{{Created: &i.Time, CreatedBy: "make dist"}},
	})
	if err != nil {
		return v1.Descriptor{}, err
	}
	manifest, err := l.json(v1.MediaTypeImageManifest, v1.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageManifest,
		Config: config, Layers: []v1.Descriptor{layer}, Annotations: i.Labels,
	})
	manifest.Platform = &platform
	return manifest, err
}

// layer writes the one layer and returns it with the digest of its tar.
func (i Image) layer(l *layout, program Program, work string) (v1.Descriptor, digest.Digest, error) {
	files := []archive.File{{Name: "muster", From: program.Path, Executable: true}}
	for _, licence := range i.Licences {
		licence.Name = "licenses/" + licence.Name
		files = append(files, licence)
	}
	packed, err := os.CreateTemp(work, "layer-")
	if err != nil {
		return v1.Descriptor{}, "", err
	}
	defer func() { _ = os.Remove(packed.Name()); _ = packed.Close() }()
	sum, unpacked := digest.Canonical.Digester(), digest.Canonical.Digester()
	err = archive.Gzip(io.MultiWriter(packed, sum.Hash()), func(out io.Writer) error {
		return archive.Tar(io.MultiWriter(out, unpacked.Hash()), files, i.Time)
	})
	if err != nil {
		return v1.Descriptor{}, "", err
	}
	size, err := packed.Seek(0, io.SeekCurrent)
	if err == nil {
		_, err = packed.Seek(0, io.SeekStart)
	}
	if err != nil {
		return v1.Descriptor{}, "", err
	}
	blob := v1.Descriptor{MediaType: v1.MediaTypeImageLayerGzip, Digest: sum.Digest(), Size: size}
	return blob, unpacked.Digest(), l.blob(blob, packed)
}

// json writes a value as a blob.
func (l *layout) json(mediaType string, value any) (v1.Descriptor, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return v1.Descriptor{}, err
	}
	blob := v1.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
	return blob, l.blob(blob, bytes.NewReader(data))
}

func (l *layout) blob(blob v1.Descriptor, content io.Reader) error {
	if l.have[blob.Digest] {
		return nil
	}
	l.have[blob.Digest] = true
	return l.put(filepath.Join(v1.ImageBlobsDir, strings.Replace(blob.Digest.String(), ":", "/", 1)), blob.Size, content)
}

// file writes a value as a file of the layout.
func (l *layout) file(name string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return l.put(name, int64(len(data)), bytes.NewReader(data))
}

func (l *layout) put(name string, size int64, content io.Reader) error {
	header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644, ModTime: l.at, Format: tar.FormatUSTAR}
	if err := l.out.WriteHeader(header); err != nil {
		return err
	}
	_, err := io.Copy(l.out, content)
	return err
}
