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
	if env := strings.Join(Linux.environment(nvml{CC: "made/cc", Folder: "made"}), " "); !strings.HasSuffix(env, "CGO_ENABLED=1 CC=made/cc CGO_CFLAGS=-O2 CGO_LDFLAGS=-O2 -lnvml-stand-in") {
		t.Errorf("with NVML the go command is told %s", env)
	}
	if env := strings.Join(LinuxStatic.environment(nvml{}), " "); env != "GOOS=linux GOARCH=amd64 GOAMD64=v1 CGO_ENABLED=0" {
		t.Errorf("without it the go command is told %s", env)
	}
}

func TestAtMost(t *testing.T) {
	for _, c := range []struct {
		name string
		want bool
	}{
		{"GLIBC_2.9", true}, {"GLIBC_2.2.5", true}, {"GLIBC_2.17", true}, {"GLIBC_2.18", false}, {"GLIBC_2.34", false}, {"GLIBC_3.0", false},
		{"GLIBC_ABI_DT_RELR", false}, {"GLIBC_PRIVATE", false}, {"GLIBCXX_3.4", false}, {"", false},
	} {
		if got := atMost(c.name, "2.17"); got != c.want {
			t.Errorf("glibc 2.17 has %q: %t, want %t", c.name, got, c.want)
		}
	}
}

// TestNeedsAtMost reads programs of this machine: a shell needs a glibc of this year's distributions
// at most, not one of long ago, and the program that is static needs none.
func TestNeedsAtMost(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	if err := needsAtMost(shell, "2.99"); err != nil {
		t.Error(err)
	}
	if err := needsAtMost(shell, "1.0"); err == nil || !strings.Contains(err.Error(), "GLIBC_2.") {
		t.Errorf("a shell with glibc 1.0: %v", err)
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
	if err := needsAtMost(static, "1.0"); err != nil {
		t.Error(err)
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
