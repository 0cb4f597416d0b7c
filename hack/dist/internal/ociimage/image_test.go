package ociimage

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/muster-dev/muster/hack/dist/internal/archive"
)

func sample(t *testing.T) Image {
	dir := t.TempDir()
	image := Image{
		Name: "muster.dev/muster", Tag: "v0.1.0", Labels: map[string]string{v1.AnnotationVersion: "v0.1.0"},
		Licences: []archive.File{{Name: "LICENSE", Content: []byte("words")}}, Time: time.Unix(1_700_000_000, 0).UTC(),
	}
	for _, arch := range []string{"amd64", "arm64"} {
		path := filepath.Join(dir, arch)
		if err := os.WriteFile(path, []byte("program for "+arch), 0o600); err != nil {
			t.Fatal(err)
		}
		image.Programs = append(image.Programs, Program{arch, path})
	}
	return image
}

func write(t *testing.T, i Image) []byte {
	t.Helper()
	var data bytes.Buffer
	if err := i.Write(&data, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	return data.Bytes()
}

// unpack returns the files of a tar.
func unpack(t *testing.T, from io.Reader) map[string]string {
	t.Helper()
	files, in := map[string]string{}, tar.NewReader(from)
	for {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(content)
	}
}

// follow reads a blob by its descriptor and checks digest and size.
func follow(t *testing.T, files map[string]string, blob v1.Descriptor, into any) string {
	t.Helper()
	text, ok := files["blobs/"+strings.Replace(blob.Digest.String(), ":", "/", 1)]
	if !ok || int64(len(text)) != blob.Size || digest.FromString(text) != blob.Digest {
		t.Fatalf("the blob %s (%s, %d bytes) is not there, or another", blob.Digest, blob.MediaType, blob.Size)
	}
	if into != nil {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	return text
}

// TestLayout walks from index.json to the files of each architecture, as a runtime
// does.
func TestLayout(t *testing.T) {
	data := write(t, sample(t))
	files := unpack(t, bytes.NewReader(data))
	if files["oci-layout"] != `{"imageLayoutVersion":"1.0.0"}` {
		t.Errorf("oci-layout says %q", files["oci-layout"])
	}
	var top, index v1.Index
	if err := json.Unmarshal([]byte(files["index.json"]), &top); err != nil || len(top.Manifests) != 1 {
		t.Fatalf("index.json says %s: %v", files["index.json"], err)
	}
	if name := top.Manifests[0].Annotations["io.containerd.image.name"]; name != "muster.dev/muster:v0.1.0" {
		t.Errorf("it is called %q", name)
	}
	follow(t, files, top.Manifests[0], &index)
	if len(index.Manifests) != 2 {
		t.Fatalf("it has %d architectures", len(index.Manifests))
	}
	for i, arch := range []string{"amd64", "arm64"} {
		var manifest v1.Manifest
		var config v1.Image
		follow(t, files, index.Manifests[i], &manifest)
		follow(t, files, manifest.Config, &config)
		if config.Architecture != arch || config.OS != "linux" || index.Manifests[i].Platform.Architecture != arch {
			t.Errorf("%s is for %s/%s", arch, config.OS, config.Architecture)
		}
		if config.Config.User != User || strings.Join(config.Config.Entrypoint, " ") != "/muster" || config.Config.Labels[v1.AnnotationVersion] != "v0.1.0" {
			t.Errorf("%s runs %+v", arch, config.Config)
		}
		unpacked, err := gzip.NewReader(strings.NewReader(follow(t, files, manifest.Layers[0], nil)))
		if err != nil {
			t.Fatal(err)
		}
		layer, err := io.ReadAll(unpacked)
		if err != nil {
			t.Fatal(err)
		}
		if got := digest.FromBytes(layer); got != config.RootFS.DiffIDs[0] {
			t.Errorf("%s: the layer is %s, and the configuration says %s", arch, got, config.RootFS.DiffIDs[0])
		}
		if in := unpack(t, bytes.NewReader(layer)); in["muster"] != "program for "+arch || in["licenses/LICENSE"] != "words" {
			t.Errorf("%s holds %q", arch, in)
		}
	}
	if !bytes.Equal(data, write(t, sample(t))) {
		t.Error("the same files made two images")
	}
}
