//go:build dist

package dist

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"helm.sh/helm/v4/pkg/chart/v2/loader"

	"github.com/muster-dev/muster/test/cluster"
)

// tryImage follows the image from its index to the program, for each architecture,
// and looks that it is the one of the archive.
func tryImage(suffix string, platforms map[string]string) func(*testing.T) {
	return func(t *testing.T) {
		blobs := layout(t, image(t, suffix))
		var top, index v1.Index
		decode(t, blobs["index.json"], &top)
		decode(t, blobs[blob(top.Manifests[0])], &index)
		if len(index.Manifests) != len(platforms) {
			t.Fatalf("it is for %d architectures, want %d", len(index.Manifests), len(platforms))
		}
		for _, described := range index.Manifests {
			var manifest v1.Manifest
			var config v1.Image
			decode(t, blobs[blob(described)], &manifest)
			decode(t, blobs[blob(manifest.Config)], &config)
			if config.Config.User == "" || strings.HasPrefix(config.Config.User, "0") || strings.Join(config.Config.Entrypoint, " ") != "/muster" || config.Config.Labels[v1.AnnotationLicenses] != "Apache-2.0" {
				t.Errorf("it runs %+v", config.Config)
			}
			in := programOf(t, blobs[blob(manifest.Layers[0])])
			archive := filepath.Join(unpack(t, one(t, "muster-*-"+platforms[config.Architecture]+".tar.gz")), "muster")
			content, err := os.ReadFile(archive)
			if err != nil {
				t.Fatal(err)
			}
			if digest.FromBytes(content) != in {
				t.Errorf("the program for %s is not the one of the archive", config.Architecture)
			}
		}
		runs(t, image(t, suffix))
	}
}

// runs has a containerd import the image and run its program, as the image's user.
func runs(t *testing.T, path string) {
	t.Helper()
	containerd, err := cluster.StartRuntime(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := containerd.Stop(); err != nil {
			t.Error(err)
		}
	})
	ctr := func(args ...string) string {
		t.Helper()
		said, err := containerd.Ctr(t.Context(), append([]string{"--namespace", "dist"}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		return said
	}
	ctr("images", "import", "--local", path)
	name := strings.TrimSpace(ctr("images", "list", "--quiet"))
	if !strings.HasPrefix(name, "muster.dev/muster:v") {
		t.Fatalf("containerd knows it as %q", name)
	}
	ctr("containers", "create", name, "muster", "/muster", "version")
	var container struct {
		Spec struct {
			Process struct{ User struct{ UID int } }
		}
	}
	decode(t, []byte(ctr("containers", "info", "muster")), &container)
	if uid := container.Spec.Process.User.UID; uid != 65532 {
		t.Errorf("it runs as user %d", uid)
	}
	if said, want := ctr("tasks", "start", "muster"), "muster "+name[strings.LastIndex(name, ":")+1:]; !strings.HasPrefix(said, want+" ") {
		t.Errorf("its program says %q, want %q", said, want)
	}
	ctr("containers", "delete", "muster")
}

// image is the file of an image: with the suffix, or the one without any.
func image(t *testing.T, suffix string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(folder(t), "muster-*"+suffix+".oci.tar"))
	if err != nil {
		t.Fatal(err)
	}
	if suffix == "" {
		found = slices.DeleteFunc(found, func(path string) bool { return strings.HasSuffix(path, "-amd64.oci.tar") })
	}
	if len(found) != 1 {
		t.Fatalf("the image is %q, want one file", found)
	}
	return found[0]
}

// layout reads the files of an image and checks the digest of every blob.
func layout(t *testing.T, path string) map[string][]byte {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	files, in := map[string][]byte{}, tar.NewReader(file)
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
		if name, ok := strings.CutPrefix(header.Name, "blobs/sha256/"); ok && digest.FromBytes(content).Encoded() != name {
			t.Errorf("the blob %s has other bytes than its name says", name)
		}
		files[header.Name] = content
	}
}

func blob(d v1.Descriptor) string {
	return filepath.Join("blobs", d.Digest.Algorithm().String(), d.Digest.Encoded())
}

func decode(t *testing.T, text []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%v: %q", err, text)
	}
}

// programOf is the digest of the file muster in a layer.
func programOf(t *testing.T, layer []byte) digest.Digest {
	t.Helper()
	packed, err := gzip.NewReader(strings.NewReader(string(layer)))
	if err != nil {
		t.Fatal(err)
	}
	in := tar.NewReader(packed)
	for {
		header, err := in.Next()
		if err != nil {
			t.Fatalf("looking for the program: %v", err)
		}
		if header.Name != "muster" {
			continue
		}
		if header.Mode != 0o755 {
			t.Errorf("the program has mode %o", header.Mode)
		}
		sum, err := digest.FromReader(in)
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
}

// tryChart has Helm's library read the chart.
func tryChart(t *testing.T) {
	c, err := loader.Load(one(t, "muster-*.tgz"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	if c.Metadata.AppVersion != "v"+c.Metadata.Version || strings.ContainsAny(c.Metadata.AppVersion, "+/") {
		t.Errorf("the chart of version %s is for the image tag %q", c.Metadata.Version, c.Metadata.AppVersion)
	}
}
