package program

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTargets(t *testing.T) {
	var names []string
	for _, target := range EveryTarget {
		names = append(names, target.String()+" "+target.Executable()+" "+target.Tags())
	}
	want := []string{
		"linux-amd64 muster netgo,osusergo,nvml",
		"linux-amd64-static muster netgo,osusergo",
		"linux-arm64 muster netgo,osusergo",
		"darwin-amd64 muster netgo,osusergo",
		"darwin-arm64 muster netgo,osusergo",
		"windows-amd64 muster.exe netgo,osusergo",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	if env := strings.Join(Linux.environment(nvml{CC: "/work/cc", Folder: "/work"}), " "); !strings.HasSuffix(env, "CGO_ENABLED=1 CC=/work/cc CGO_CFLAGS=-O2 CGO_LDFLAGS=-O2 -L/work -lnvml-stand-in") {
		t.Errorf("with NVML the go command is told %s", env)
	}
	if env := strings.Join(LinuxStatic.environment(nvml{}), " "); env != "GOOS=linux GOARCH=amd64 GOAMD64=v1 CGO_ENABLED=0" {
		t.Errorf("without it the go command is told %s", env)
	}
}

func TestOlder(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{{"2.9", "2.17", true}, {"2.17", "2.9", false}, {"2.17", "2.17", false}, {"", "2.2", true}, {"2.2", "2.2.5", true}} {
		if got := Older(c.a, c.b); got != c.want {
			t.Errorf("%q is older than %q: %t", c.a, c.b, got)
		}
	}
}

// TestNeeds reads a program of this machine with libraries, and one without.
func TestNeeds(t *testing.T) {
	shell, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	if libraries, err := Libraries(shell); err != nil || len(libraries) == 0 {
		t.Errorf("a shell needs %q, %v", libraries, err)
	}
	if version, err := NewestGlibc(shell); err != nil || !strings.HasPrefix(version, "2.") {
		t.Errorf("a shell needs glibc %q, %v", version, err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	static := filepath.Join(dir, "static")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", static, filepath.Join(dir, "main.go"))
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	libraries, err := Libraries(static)
	if err != nil || len(libraries) != 0 {
		t.Errorf("a static program needs %q, %v", libraries, err)
	}
	if version, err := NewestGlibc(static); err != nil || version != "" {
		t.Errorf("a static program needs glibc %q, %v", version, err)
	}
}

// TestStandIn wants the functions that are called, once each, and no types.
func TestStandIn(t *testing.T) {
	dir := t.TempDir()
	text := "package nvml\n\nvar x C.nvmlReturn_t\n\nfunc y() { C.nvmlInit_v2(); C.nvmlShutdown(); C.nvmlShutdown() }\n"
	if err := os.WriteFile(filepath.Join(dir, "nvml.go"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := standInSource(dir)
	if err != nil || string(got) != "void nvmlInit_v2(void) {}\nvoid nvmlShutdown(void) {}\n" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := standInSource(t.TempDir()); err == nil {
		t.Error("a folder without calls is taken")
	}
}
