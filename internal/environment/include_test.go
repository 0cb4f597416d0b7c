package environment

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// folder is a folder with files, by their paths.
func folder(t *testing.T, files map[string]string) *os.Root {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return root
}

// TestGather: included files are followed within the folder, and have the same meaning as for pip.
func TestGather(t *testing.T) {
	deep := map[string]string{"requirements.txt": "-r f0.txt\n"}
	for i := range 20 {
		deep[fmt.Sprintf("f%d.txt", i)] = fmt.Sprintf("-r f%d.txt\n", i+1)
	}
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string
		says  string // of the error
	}{
		{"no other file: as it is", map[string]string{"requirements.txt": "numpy # fast\n"}, "numpy # fast\n", ""},
		{"files beside and below", map[string]string{
			"requirements.txt": "-r base.txt\n--requirement=sub/more.txt # both\nrich\n", "base.txt": "numpy>=2\n", "sub/more.txt": "-r ../base.txt\n-r other.txt\n", "sub/other.txt": "tqdm\n",
		}, "numpy>=2\ntqdm\nrich\n", ""},
		{"constraints", map[string]string{
			"requirements.txt": "-c bounds.txt\nnumpy\n-c tqdm<5\n", "bounds.txt": "-r base.txt\npandas==2.3\n", "base.txt": "numpy==2.1\n",
		}, "-c numpy==2.1\n-c pandas==2.3\nnumpy\n-c tqdm<5\n", ""},
		{"a loop", map[string]string{"requirements.txt": "-r a.txt\n", "a.txt": "-r requirements.txt\n"}, "", "requirements.txt includes itself, by way of requirements.txt -> a.txt -> requirements.txt"},
		{"too deep", deep, "", "more than 16 files lead to this one"},
		{"a file that is not there", map[string]string{"requirements.txt": "-r base.txt\n"}, "", "requirements.txt: there is no file base.txt"},
		{"a file outside", map[string]string{"requirements.txt": "-r ../base.txt\n"}, "", "outside of the code folder"},
		{"a whole path", map[string]string{"requirements.txt": "-r /etc/passwd\n"}, "", "by its whole path"},
		{"the network", map[string]string{"requirements.txt": "-r https://x.test/r.txt\n"}, "", "a file of the network"},
		{"a folder", map[string]string{"requirements.txt": "-r sub\n", "sub/a": ""}, "", "sub is no file"},
		{"a mistake in an included file", map[string]string{"requirements.txt": "-r base.txt\n", "base.txt": "# base\n-e ../pkg\n"}, "", "base.txt, line 2: "},
		{"packages of the code", map[string]string{"requirements.txt": "-r sub/base.txt\n", "sub/base.txt": "# base\n-e ./pkg\n./dist/a.whl\n"}, "-e ./pkg\n./dist/a.whl\n", ""},
		{"extras in a constraint", map[string]string{"requirements.txt": "-c base.txt\n", "base.txt": "a[b]==1\n"}, "", "base.txt, line 1: "},
		{"too large", map[string]string{"requirements.txt": "-r base.txt\n", "base.txt": strings.Repeat("#", 1000)}, "", "more than 900 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Gather(folder(t, c.files), "requirements.txt", 900)
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error is %v, want %q", err, c.says)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("requirements (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSplit: constraints are in a file of their own for pip.
func TestSplit(t *testing.T) {
	text, err := Normalise("-c numpy == 2.1 ; python_version > '3.9'\nnumpy\n--constraint pandas<3\n")
	if err != nil {
		t.Fatal(err)
	}
	needed, bounds := Split(text)
	if needed != "numpy\n" || strings.Count(bounds, "\n") != 2 || !strings.HasPrefix(bounds, "numpy==2.1 ; ") || strings.Contains(bounds, "-c") {
		t.Errorf("requirements %q, constraints %q", needed, bounds)
	}
}

// TestPassword: an address with a password is refused, and the error does not show it.
func TestPassword(t *testing.T) {
	for text, want := range map[string]bool{
		"numpy\n--extra-index-url https://ada:s3cret@x.test/simple\n": true,
		"pkg @ git+https://s3cret@x.test/pkg.git\n":                   true,
		"--index-url https://x.test/simple\nnumpy\n":                  false,
		"# https://ada:s3cret@x.test\nnumpy\n":                        false,
	} {
		err := Password(text)
		if (err != nil) != want || err != nil && (strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), "line ")) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
