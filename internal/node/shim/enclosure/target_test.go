package enclosure

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestResolve(t *testing.T) {
	root := t.TempDir()
	for _, d := range []string{"run", "var", "usr/share"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"var/run": "/run", "bin": "usr/bin", "loop": "loop", "up": "../../../../usr"} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	tr := &tree{root: root}
	for _, c := range []struct {
		target, existing, missing string
	}{
		{"/usr/share", "/usr/share", ""},
		{"/usr//share/./", "/usr/share", ""},
		{"/new", "", "new"},
		{"/usr/share/a/b", "/usr/share", "a/b"},
		{"/var/run/secrets", "/run", "secrets"},
		{"/bin/x", "/usr", "bin/x"},
		{"/up/share", "/usr/share", ""},
		{"/../../usr", "/usr", ""},
	} {
		existing, missing, err := tr.resolve(c.target)
		if err != nil {
			t.Errorf("resolve(%s): %v", c.target, err)
			continue
		}
		if diff := cmp.Diff([]string{root + c.existing, c.missing}, []string{existing, strings.Join(missing, "/")}); diff != "" {
			t.Errorf("resolve(%s) (-want +got):\n%s", c.target, diff)
		}
	}
	if _, _, err := tr.resolve("/loop/x"); err == nil || !strings.Contains(err.Error(), "symbolic links") {
		t.Errorf("resolve of a loop = %v", err)
	}
}
