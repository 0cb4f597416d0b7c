package program

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// zigVersion is that of the package on PyPI that zigPackage pins by its hash.
const zigVersion = "0.17.1"

//go:embed zig.txt
var zigPackage []byte

// zig installs zig once and returns its path.
func (b Builder) zig(ctx context.Context) (string, error) {
	folder := filepath.Join(b.Work, "zig-"+zigVersion)
	path := filepath.Join(folder, "ziglang", "zig")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(b.Work, 0o755); err != nil {
		return "", fmt.Errorf("installing zig: %w", err)
	}
	half, err := os.MkdirTemp(b.Work, "zig-")
	if err != nil {
		return "", fmt.Errorf("installing zig: %w", err)
	}
	defer func() { _ = os.RemoveAll(half) }()
	wanted := filepath.Join(half, "zig.txt")
	if err := os.WriteFile(wanted, zigPackage, 0o644); err != nil {
		return "", fmt.Errorf("installing zig: %w", err)
	}
	install := exec.CommandContext(ctx, "python3", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
		"--only-binary=:all:", "--require-hashes", "--target", filepath.Join(half, "site"), "-r", wanted)
	if err := start(install, new(bytes.Buffer)); err != nil {
		return "", fmt.Errorf("installing zig: %w", err)
	}
	if err := os.Rename(filepath.Join(half, "site"), folder); err != nil {
		return "", fmt.Errorf("installing zig: %w", err)
	}
	return path, nil
}
