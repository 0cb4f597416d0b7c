package program

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// compiler is what the go command calls for C. go-nvml has GNU's linker ignore the
// functions of NVIDIA's library, which are there once that has been opened. zig's
// linker has no such option, and finds them in a stand-in instead. The folder of the stand-in is
// named here and not in a variable of the go command, which would have it in the program's build ID.
const compiler = `#!/bin/sh
for argument; do
  shift
  case $argument in
  -Wl,--unresolved-symbols=*) ;;
  *) set -- "$@" "$argument" ;;
  esac
done
exec %s cc -target %s -L%s "$@"
`

// quote is a word as the shell reads it.
func quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// standIn is the name by which the stand-in is linked. What is linked remembers
// another, that of glibc's mathematics, which every system with glibc has: symbols
// of Linux are looked for in all libraries, NVIDIA's among them once it is open.
const (
	standIn       = "nvml-stand-in"
	standInPasses = "libm.so.6"
)

// nvml is how the go command compiles and links what reads NVML.
type nvml struct {
	// CC is the compiler, and Folder holds the stand-in.
	CC, Folder string
}

// prepareNVML makes the compiler and the stand-in.
func (b Builder) prepareNVML(ctx context.Context, t Target) (nvml, error) {
	zig, err := b.zig(ctx)
	if err != nil {
		return nvml{}, err
	}
	system := archOfLinker[t.Arch] + "-linux-gnu." + Glibc
	n := nvml{Folder: filepath.Join(b.Work, "nvml-"+t.Arch)}
	n.CC = filepath.Join(n.Folder, "cc")
	if err := os.MkdirAll(n.Folder, 0o755); err != nil {
		return n, fmt.Errorf("preparing NVML: %w", err)
	}
	if err := os.WriteFile(n.CC, fmt.Appendf(nil, compiler, quote(zig), system, quote(n.Folder)), 0o755); err != nil {
		return n, fmt.Errorf("preparing NVML: %w", err)
	}
	folder, err := b.list(ctx, nil, "-m", "-f", "{{.Dir}}", "github.com/NVIDIA/go-nvml")
	if err != nil {
		return n, err
	}
	source, err := standInSource(filepath.Join(strings.TrimSpace(folder), "pkg", "nvml"))
	if err != nil {
		return n, err
	}
	file := filepath.Join(n.Folder, "stand-in.c")
	if err := os.WriteFile(file, source, 0o644); err != nil {
		return n, fmt.Errorf("preparing NVML: %w", err)
	}
	cmd := exec.CommandContext(ctx, n.CC, "-shared", "-nostdlib", "-Wl,-soname,"+standInPasses,
		"-o", filepath.Join(n.Folder, "lib"+standIn+".so"), file)
	return n, start(cmd, new(bytes.Buffer))
}

var functionOfNVML = regexp.MustCompile(`\bnvml[A-Z]\w*`)

// standInSource is C that defines every function of NVML that go-nvml may call.
func standInSource(folder string) ([]byte, error) {
	calls, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, fmt.Errorf("reading go-nvml: %w", err)
	}
	var names []string
	for _, file := range calls {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading go-nvml: %w", err)
		}
		for _, call := range callOfC.FindAll(text, -1) {
			names = append(names, string(functionOfNVML.Find(call)))
		}
	}
	slices.Sort(names)
	var source bytes.Buffer
	for _, name := range slices.Compact(names) {
		fmt.Fprintf(&source, "void %s(void) {}\n", name)
	}
	if source.Len() == 0 {
		return nil, fmt.Errorf("reading go-nvml: no file in %s calls NVML", folder)
	}
	return source.Bytes(), nil
}

var callOfC = regexp.MustCompile(`\bC\.nvml[A-Z]\w*\(`)
