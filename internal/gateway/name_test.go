package gateway

import (
	"strings"
	"testing"

	"github.com/muster-dev/muster/internal/data/tree"
)

// FuzzParseKey: a key of S3 that is taken is a version and a path of a tree, and nothing else.
func FuzzParseKey(f *testing.F) {
	for _, key := range []string{"main/a/b", "main/", "main", "/a", "main//a", "main/../x", "main/a/", "main/a//", "\x00/\xff", strings.Repeat("k/", 600)} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		got, err := parse(&key)
		if err != nil {
			return
		}
		again := got.version + "/" + got.path
		if got.folder && got.path != "" {
			again += "/"
		}
		if again != key && key != got.version+"//" || len(key) > longestKey || got.version == "" || strings.Contains(got.version, "/") {
			t.Fatalf("%q is taken for %+v", key, got)
		}
		if got.path != "" && tree.CheckPath(got.path) != nil {
			t.Fatalf("%q has the path %q", key, got.path)
		}
	})
}
