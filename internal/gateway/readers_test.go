package gateway

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/crafted"
	"github.com/muster-dev/muster/internal/data/ref"
)

// TestEveryTreeByS3: clients list and get the files that a program reads in a checkout, and links as
// the files that they lead to.
func TestEveryTreeByS3(t *testing.T) {
	r := newRig(t)
	store, err := data.Open(t.Context(), data.Options{Backend: r.bytes, Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	set := store.Dataset(r.Heads("team", "digits").(*ref.Memory))
	for m := range crafted.Trees(t, 15, 150) {
		dir := t.TempDir()
		if err := crafted.Plant(dir, m); err != nil {
			t.Fatal(err)
		}
		done, err := set.Put(t.Context(), "main", data.Folder(dir), data.PutOptions{AddOptions: data.AddOptions{Replace: true}})
		if err != nil {
			t.Fatal(err)
		}
		version := done.Commit.ID.String()
		want, got := map[string]string{}, map[string]string{}
		for name := range m {
			path, _, _ := crafted.Parse(name)
			if info, err := os.Stat(filepath.Join(dir, path)); err != nil || !info.Mode().IsRegular() {
				continue // a link to a folder, or to nothing
			}
			text, err := os.ReadFile(filepath.Join(dir, path))
			if err != nil {
				t.Fatal(err)
			}
			want[path] = string(text)
		}
		for object := range r.client.Client.ListObjects(t.Context(), "digits", minio.ListObjectsOptions{Prefix: version + "/", Recursive: true}) {
			if object.Err != nil {
				t.Fatalf("%v: %v", m, object.Err)
			}
			path := object.Key[len(version)+1:]
			got[path] = r.read(t, object.Key)
			if int64(len(got[path])) != object.Size {
				t.Errorf("%s has %d bytes, and %d are listed", path, len(got[path]), object.Size)
			}
		}
		if says := crafted.Differ(want, got); says != "" {
			t.Fatalf("%v: %s", m, says)
		}
	}
}

func (r *rig) read(t *testing.T, key string) string {
	t.Helper()
	object, err := r.client.Client.GetObject(t.Context(), "digits", key, minio.GetObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = object.Close() }()
	text, err := io.ReadAll(object)
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return string(text)
}
