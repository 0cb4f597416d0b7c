package ref

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-dev/muster/internal/data/digest"
)

// FuzzName: a name that is taken is a file of its own in the folder, and is listed as itself.
func FuzzName(f *testing.F) {
	for _, name := range []string{"main", "a/b", "..", "a/../b", "a%b", "a//b", "-x", ".x", "é", strings.Repeat("x", 128)} {
		f.Add("branch", name)
	}
	f.Fuzz(func(t *testing.T, kind, text string) {
		name := Name{Kind: Kind(kind), Name: text}
		if name.Check() != nil {
			return
		}
		folder, err := OpenFolder(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		at := digest.Of([]byte("x"))
		if err := folder.Swap(t.Context(), name.Move(digest.ID{}, at)); err != nil {
			t.Fatalf("%s cannot be made: %v", name, err)
		}
		all, err := folder.List(t.Context())
		if err != nil || len(all) != 1 || all[name] != at {
			t.Fatalf("%s is listed as %v, %v", name, all, err)
		}
		if dir := filepath.Dir(folder.path(name)); dir != filepath.Join(folder.root, kind) {
			t.Fatalf("%s is in %s", name, dir)
		}
	})
}

// FuzzGet: each content of the file of a head is a commit or an error.
func FuzzGet(f *testing.F) {
	f.Add([]byte(digest.Of([]byte("x")).String() + "\n"))
	f.Add([]byte("..\x00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		folder, err := OpenFolder(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		main := Name{Kind: Branch, Name: "main"}
		if err := os.WriteFile(folder.path(main), text, 0o600); err != nil {
			t.Fatal(err)
		}
		if id, err := folder.Get(t.Context(), main); err == nil && !strings.EqualFold(id.String(), strings.TrimSpace(string(text))) {
			t.Fatalf("%q is read as %s", text, id)
		}
	})
}
