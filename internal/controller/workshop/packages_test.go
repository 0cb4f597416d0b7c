package workshop

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/environment"
)

// ofCode asks for packages of the code with these contents.
func ofCode(first, snapshot string) environment.Request {
	return environment.Request{
		Requirements: "-e ./libs/pkg[gpu]\n./dist/a-1-py3-none-any.whl\n.\nnumpy\n", Image: "python:3.13", Code: snapshot,
		Packages: map[string]string{"libs/pkg": first, "dist/a-1-py3-none-any.whl": "sha256:b", ".": "sha256:c"},
	}
}

// TestPackagesOfTheCode: a build sees the packages of the code that its requirements name,
// each alone and for reading, and counts by their contents.
func TestPackagesOfTheCode(t *testing.T) {
	s := newStage(t)
	job, _ := wants("vision", "python:3.13")
	request := ofCode("sha256:a", "sha256:all")
	state := s.shop.Ensure(job, request)
	pod := &corev1.Pod{}
	if err := s.Get(t.Context(), client.ObjectKey{Namespace: "vision", Name: nameOf(state.Key)}, pod); err != nil {
		t.Fatal(err)
	}
	var volume *corev1.CSIVolumeSource
	for _, v := range pod.Spec.Volumes {
		if v.Name == code {
			volume = v.CSI
		}
	}
	if volume == nil || volume.Driver != v1alpha1.CodeDriver || volume.VolumeAttributes["snapshot"] != "sha256:all" || volume.ReadOnly == nil || !*volume.ReadOnly {
		t.Errorf("the code's volume is %+v", volume)
	}
	seen := map[string]string{}
	for _, m := range pod.Spec.Containers[0].VolumeMounts {
		if m.Name == code {
			seen[m.MountPath] = m.SubPath
			if !m.ReadOnly {
				t.Errorf("%s can be written", m.MountPath)
			}
		}
	}
	want := map[string]string{"/muster/packages/0/pkg": "libs/pkg", "/muster/packages/1/a-1-py3-none-any.whl": "dist/a-1-py3-none-any.whl", "/muster/packages/2/code": ""}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("the build sees (-want +got):\n%s", diff)
	}
	env := map[string]string{}
	for _, v := range pod.Spec.Containers[0].Env {
		env[v.Name] = v.Value
	}
	if text := "./packages/0/pkg[gpu]\n./packages/1/a-1-py3-none-any.whl\n./packages/2/code\nnumpy\n"; env["MUSTER_REQUIREMENTS"] != text || env["MUSTER_PACKAGES"] != packages {
		t.Errorf("it is told %q", env)
	}
	key := func(r environment.Request) string {
		t.Helper()
		b, err := order(r, r.Image, nil)
		if err != nil {
			t.Fatal(err)
		}
		return b.key
	}
	if key(ofCode("sha256:a", "sha256:other")) != state.Key || key(ofCode("sha256:changed", "sha256:all")) == state.Key {
		t.Error("the key does not follow the contents of the packages")
	}
	delete(request.Packages, ".")
	if _, err := order(request, request.Image, nil); err == nil || !strings.Contains(err.Error(), "package of the code folder") {
		t.Errorf("without a content: %v", err)
	}
}

// TestTheProgramBuildsPackagesOfTheCode: the program builds copies, and leaves the mounted packages
// as they are.
func TestTheProgramBuildsPackagesOfTheCode(t *testing.T) {
	shown := t.TempDir()
	for name, text := range map[string]string{
		"0/pkg/pyproject.toml": "[build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = [\".\"]\n",
		"0/pkg/backend.py": `
import os, zipfile
def build_wheel(directory, config_settings=None, metadata_directory=None):
    open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "written"), "w").close()
    name = "mine-1-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(directory, name), "w") as z:
        z.writestr("mine.py", "value = 7")
        z.writestr("mine-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: mine\nVersion: 1\n")
        z.writestr("mine-1.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr("mine-1.dist-info/RECORD", "")
    return name
`,
	} {
		at := filepath.Join(shown, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o444), os.Chmod(filepath.Dir(at), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	folder, said, err := script(t, "./packages/0/pkg\n", "", "1000000000", "MUSTER_PACKAGES="+shown)
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(folder, "bin", "python"), "-c", "import mine; print(mine.value)").CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "7" {
		t.Errorf("%s, %v", out, err)
	}
	if _, err := os.Stat(filepath.Join(shown, "0", "pkg", "written")); err == nil {
		t.Error("the build wrote to the mounted packages")
	}
}
