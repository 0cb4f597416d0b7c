//go:build linux

package environment

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/environment/source"
)

func TestPlace(t *testing.T) {
	text := "six\n./pkg[gpu] ; os_name == \"posix\"\n./pkg\n./dist/a-1-py3-none-any.whl --hash=sha256:00\n./.\n-c numpy==2\n"
	got, packages := Place(text, "packages")
	want := "six\n./packages/0/pkg[gpu] ; os_name == \"posix\"\n./packages/0/pkg\n./packages/1/a-1-py3-none-any.whl --hash=sha256:00\n./packages/2/code\n-c numpy==2\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	all := Packages{Paths: []string{"pkg", "dist/a-1-py3-none-any.whl", "."}, Folders: []string{"0", "1", "2"}, Names: []string{"pkg", "a-1-py3-none-any.whl", "code"}}
	if diff := cmp.Diff(all, packages); diff != "" {
		t.Error(diff)
	}
	if got, _ = Place("./pkg\n", "/tmp/x"); got != "/tmp/x/0/pkg\n" {
		t.Error(got)
	}
}

// watcher is a build backend that notes the files that the build sees, and writes beside its
// source.
const watcher = `
import json, os, zipfile
here = os.path.dirname(os.path.abspath(__file__))
def build_wheel(directory, config_settings=None, metadata_directory=None):
    seen = {"beside": sorted(os.listdir(os.path.dirname(here))), "value": open(os.path.join(here, "value")).read()}
    open(os.path.join(here, "written"), "w").close()
    os.mkdir(os.path.join(here, "closed", "in"))
    for name in %PATHS%:
        try:
            open(name).close()
            seen[name] = "read"
        except OSError:
            pass
    name = "watcher-1-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(directory, name), "w") as z:
        z.writestr("watcher.py", "seen = " + repr(json.dumps(seen)))
        z.writestr("watcher-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: watcher\nVersion: 1\nProvides-Extra: gpu\n")
        z.writestr("watcher-1.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr("watcher-1.dist-info/RECORD", "")
    return name
`

// codeWith stores a code folder, and returns its digest and the parts at these paths.
func codeWith(t *testing.T, s *source.Store, files map[string]string, paths ...string) (string, map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		at := filepath.Join(dir, name)
		must(t, errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o644)))
	}
	for _, name := range []string{"libs/pkg/closed"} {
		must(t, errors.Join(os.MkdirAll(filepath.Join(dir, name), 0o755), os.Chmod(filepath.Join(dir, name), 0o555)))
	}
	result, err := s.Snapshot(t.Context(), dir, source.Options{})
	must(t, err)
	parts := map[string]string{}
	for _, at := range paths {
		part, err := s.Part(result.Digest, at)
		must(t, err)
		parts[at] = part.Digest
	}
	return result.Digest, parts
}

// stores are those of namespaces.
type stores map[string]*source.Store

func (s stores) Part(namespace, digest, path string) (source.Part, error) {
	if s[namespace] == nil {
		return source.Part{}, source.ErrNotStored
	}
	return s[namespace].Part(digest, path)
}

func (s stores) CheckoutPart(ctx context.Context, namespace, digest, path, dst string) error {
	if s[namespace] == nil {
		return source.ErrNotStored
	}
	return s[namespace].CheckoutPart(ctx, digest, path, dst)
}

// TestLocalPackages: packages of the code are built from its snapshot, each alone, and
// count by their content.
func TestLocalPackages(t *testing.T) {
	home := t.TempDir()
	must(t, os.WriteFile(filepath.Join(home, "kubeconfig"), []byte("the key"), 0o644))
	s, err := source.Open(filepath.Join(home, "code"))
	must(t, err)
	c := place(t, home)
	r := start(t, Options{Dir: filepath.Join(home, "environments"), Place: c, Code: stores{"ann": s}})
	files := map[string]string{
		"requirements.txt": "x", "train.py": "1", "libs/beside.py": "x",
		"libs/pkg/backend.py": strings.Replace(watcher, "%PATHS%", `["`+home+`/kubeconfig", here + "/../../train.py", here + "/../beside.py"]`, 1),
		"libs/pkg/value":      "first", "libs/pkg/pyproject.toml": "[build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = [\".\"]\n",
	}
	const text = "-e ./libs/pkg[gpu]\n"
	build := func() (State, map[string]any) {
		t.Helper()
		digest, parts := codeWith(t, s, files, "libs/pkg")
		got, _ := r.settled(t, Request{Namespace: "ann", Requirements: text, Code: digest, Packages: parts})
		if got.Phase != Ready {
			t.Fatalf("%+v", got)
		}
		out, err := exec.CommandContext(t.Context(), filepath.Join(got.Path, "bin", "python"), "-c", "import watcher; print(watcher.seen)").CombinedOutput()
		if err != nil {
			t.Fatalf("%s, %v", out, err)
		}
		var seen map[string]any
		must(t, json.Unmarshal(out, &seen))
		return got, seen
	}
	one, seen := build()
	want := map[string]any{"beside": []any{"pkg"}, "value": "first"}
	if confined, _ := c.Confined(); !confined {
		want[home+"/kubeconfig"] = "read"
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("the build sees (-want +got):\n%s", diff)
	}
	files["train.py"] = "another"
	if two, _ := build(); two.Key != one.Key {
		t.Errorf("other code makes another environment, %s and %s", one.Key, two.Key)
	}
	files["libs/pkg/value"] = "second"
	if three, seen := build(); three.Key == one.Key || seen["value"] != "second" {
		t.Errorf("a changed package is not built again: %s and %s, %v", one.Key, three.Key, seen)
	}
}

// TestLocalPackagesThatCannotBe: a request with a missing or wrong package is refused with a
// message.
func TestLocalPackagesThatCannotBe(t *testing.T) {
	s, err := source.Open(filepath.Join(t.TempDir(), "code"))
	must(t, err)
	r := start(t, Options{Code: stores{"ann": s}})
	digest, parts := codeWith(t, s, map[string]string{"libs/pkg/x.py": "x", "notes.txt": "x", "bad.whl": "x"}, "libs/pkg", "notes.txt", "bad.whl")
	for name, c := range map[string]struct {
		request Request
		says    string
	}{
		"no code":          {Request{Requirements: "./libs/pkg\n"}, "./libs/pkg is a package of the code folder"},
		"no package":       {Request{Namespace: "ann", Requirements: "./libs/pkg\n", Code: digest, Packages: parts}, "neither pyproject.toml nor setup.py"},
		"no archive":       {Request{Namespace: "ann", Requirements: "./notes.txt\n", Code: digest, Packages: parts}, "no archive of a package"},
		"another content":  {Request{Namespace: "ann", Requirements: "./libs/pkg\n", Code: digest, Packages: map[string]string{"libs/pkg": "sha256:" + strings.Repeat("0", 64)}}, "the environment was asked for with sha256:0"},
		"not in the code":  {Request{Namespace: "ann", Requirements: "./gone\n", Code: digest, Packages: map[string]string{"gone": "sha256:00"}}, "not in the code"},
		"another snapshot": {Request{Namespace: "ann", Requirements: "./lost\n", Code: "sha256:" + strings.Repeat("0", 64), Packages: map[string]string{"lost": "sha256:00"}}, "code snapshot"},
		"another namespace's code": {Request{Namespace: "bob", Requirements: "./libs/pkg\n", Code: digest, Packages: parts},
			"copying the package ./libs/pkg: " + source.ErrNotStored.Error()},
		"pip refuses it": {Request{Namespace: "ann", Requirements: "./bad.whl\n", Code: digest, Packages: parts}, "bad.whl"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, _ := r.settled(t, c.request); got.Phase != Failed || !strings.Contains(got.Message, c.says) {
				t.Errorf("%+v, want %q", got, c.says)
			}
		})
	}
	if got, _ := start(t, Options{}).settled(t, Request{Namespace: "ann", Requirements: "./libs/pkg\n", Code: digest, Packages: parts}); got.Phase != Failed || !strings.Contains(got.Message, "package of the code folder") {
		t.Errorf("without a store: %+v", got)
	}
}
