//go:build dist

package dist

import (
	"debug/elf"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// tryWheel installs the wheel in a new virtual environment and does with it what
// docs/install.md says, from `muster up` to `muster down`.
func tryWheel(t *testing.T) {
	wheelIsForOldSystems(t)
	wheel, dir := one(t, "muster-*.whl"), t.TempDir()
	python := filepath.Join(dir, "venv", "bin", "python")
	home := "MUSTER_HOME=" + filepath.Join(dir, "home")
	path := "PATH=" + filepath.Dir(python) + ":" + os.Getenv("PATH")
	do(t, nil, "python3", "-m", "venv", filepath.Join(dir, "venv"))
	do(t, nil, python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", wheel)
	muster := filepath.Join(filepath.Dir(python), "muster")
	env := []string{home, path, "KUBECONFIG="}

	version := strings.Split(filepath.Base(wheel), "-")[1]
	said := do(t, env, muster, "version")
	if base, _, _ := strings.Cut(version, ".dev"); !strings.HasPrefix(said, "muster v"+base) {
		t.Errorf("the wheel of version %s says %q", version, said)
	}
	if got := do(t, env, python, "-c", "import muster, importlib.metadata as m; print(m.version('muster'))"); strings.TrimSpace(got) != version {
		t.Errorf("Python knows version %q, want %s", got, version)
	}
	t.Cleanup(func() {
		if _, err := os.Stat(muster); err == nil { // the test failed before it uninstalled it
			do(t, env, muster, "down", "--stop-jobs")
		}
	})
	do(t, env, muster, "up", "--detach", "--tier", "plain", "--simulate-gpus", "2xA100")
	out := do(t, env, muster, "run", "--name", "hello", "--gpus", "1", "--", "python", "-c", "import os; print('hello from', os.environ['MUSTER_JOB'])")
	if !strings.Contains(out, "hello from hello") {
		t.Errorf("the job says %q", out)
	}
	// The package reads what the program keeps; its two dependencies come from PyPI.
	do(t, nil, python, "-m", "pip", "install", "--quiet", wheel)
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	do(t, env, muster, "data", "create", "words")
	do(t, env, muster, "data", "put", filepath.Join(dir, "a.txt"), "words:/a.txt")
	if got := do(t, env, python, "-c", "from muster.data import Path; print(Path('words', 'a.txt').read_text())"); strings.TrimSpace(got) != "kept" {
		t.Errorf("the package read %q", got)
	}
	do(t, env, muster, "down")
	if out := do(t, env, python, "-m", "pip", "uninstall", "--yes", "muster"); !strings.Contains(out, "uninstalled") {
		t.Errorf("pip says %q", out)
	}
	if _, err := os.Stat(muster); err == nil {
		t.Error("the program is still there after pip uninstall")
	}
}

// wheelIsForOldSystems compares the tag of the wheel with the versions of glibc
// whose symbols the program needs.
func wheelIsForOldSystems(t *testing.T) {
	t.Helper()
	wheel := one(t, "muster-*.whl")
	dir := unpack(t, wheel)
	programs, err := filepath.Glob(filepath.Join(dir, "muster-*.data", "scripts", "muster"))
	if err != nil || len(programs) != 1 {
		t.Fatalf("the programs are %q: %v", programs, err)
	}
	tagged := minor(t, strings.Split(strings.SplitAfter(filepath.Base(wheel), "manylinux_2_")[1], "_")[0])
	if tagged > 28 {
		t.Errorf("the tag is for glibc 2.%d: RHEL 8 has 2.28", tagged)
	}
	needsGlibc(t, programs[0], tagged)
	carries(t, programs[0], elf.EM_X86_64, 2)
}

// needsGlibc looks that a program needs symbols of glibc, none of a version above
// 2.minor, and no other library.
func needsGlibc(t *testing.T, program string, most int) {
	t.Helper()
	file, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	needed, err := file.DynamicVersionNeeds()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, library := range needed {
		for _, need := range library.Needs {
			// Another name stands for a feature of a later glibc, such as GLIBC_ABI_DT_RELR.
			version, ok := strings.CutPrefix(need.Dep, "GLIBC_2.")
			if !ok || minor(t, strings.Split(version, ".")[0]) > most {
				t.Errorf("it needs %s of %s, and may need glibc 2.%d", need.Dep, library.Name, most)
			}
			seen++
		}
	}
	if seen == 0 {
		t.Error("the program needs no glibc: is NVML in it?")
	}
	libraries, err := file.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	allowed := []string{"libc.so.6", "libdl.so.2", "libpthread.so.0", "libm.so.6", "librt.so.1", "ld-linux-x86-64.so.2", "libresolv.so.2"}
	for _, library := range libraries {
		if !slices.Contains(allowed, library) {
			t.Errorf("it needs %s, which not every system has", library)
		}
	}
}

func minor(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("a version of glibc: %v", err)
	}
	return n
}

// tryStatic runs the static program where nothing else is: no library, no
// shell, no list of users. The job that it runs is the program itself.
func tryStatic(t *testing.T) {
	dir := unpack(t, one(t, "muster-*-linux-amd64-static.tar.gz"))
	file, err := elf.Open(filepath.Join(dir, "muster"))
	if err != nil {
		t.Fatal(err)
	}
	libraries, err := file.ImportedLibraries()
	if err != nil || len(libraries) > 0 {
		t.Errorf("it needs %q: %v", libraries, err)
	}
	_ = file.Close()
	listed(t, filepath.Join(dir, "muster"))
	carries(t, filepath.Join(dir, "muster"), elf.EM_X86_64, 2)
	for _, name := range []string{"proc", "dev", "tmp"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// In namespaces of its own, so that mounts and processes end with it.
	const script = `set -eu
mount --make-rprivate /
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
muster() { env -i MUSTER_HOME=/tmp/home "$change" "$root" /muster "$@"; }
root=$1 change=$(command -v chroot)
muster version
muster up --detach --tier plain
muster run --name itself --code none -- /muster version -o json
muster status -o json
muster down
`
	out := do(t, nil, "unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script, "sh", dir)
	if !strings.Contains(out, `"platform": "linux/amd64"`) {
		t.Errorf("the job did not print its version:\n%s", out)
	}
	at := strings.Index(out, "{\n  \"home\"")
	if at < 0 {
		t.Fatalf("there is no status:\n%s", out)
	}
	var status struct {
		Alive bool
		State struct{ Phase string }
	}
	if err := json.NewDecoder(strings.NewReader(out[at:])).Decode(&status); err != nil || !status.Alive || status.State.Phase != "Ready" {
		t.Errorf("the status is %+v: %v", status, err)
	}
}
