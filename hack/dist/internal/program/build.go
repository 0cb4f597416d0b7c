package program

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Builder builds programs of a checkout.
type Builder struct {
	// Root is the checkout.
	Root string
	// Work is a folder for what is built on the way; it is kept between builds.
	Work string
	// Version is that of the programs, with its "v".
	Version string
}

// Build builds muster for a target and returns its path.
func (b Builder) Build(ctx context.Context, t Target) (string, error) {
	kubernetes, err := b.list(ctx, nil, "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	if err != nil {
		return "", err
	}
	var nvidia nvml
	var overlay string
	if t.NVML {
		if nvidia, err = b.prepareNVML(ctx, t); err != nil {
			return "", err
		}
	}
	if t.OS == "linux" {
		if overlay, err = b.inside(ctx, t); err != nil {
			return "", err
		}
	}
	// Without a build ID, which would be another in another folder.
	linker := "-s -w -buildid= -X k8s.io/component-base/version.gitVersion=" + strings.TrimSpace(kubernetes) +
		" -X github.com/muster-dev/muster/internal/cli/version.release=" + b.Version
	if t.NVML {
		// NVML's symbols are there once its library has been opened.
		linker += " -extldflags=-Wl,-z,lazy"
	}
	out := filepath.Join(b.Work, t.String(), t.Executable())
	args := []string{"-trimpath", "-buildvcs=false", "-tags", t.Tags(), "-ldflags", linker, "-o", out}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	if err := b.run(ctx, t.environment(nvidia), "build", append(args, "./cmd/muster")...); err != nil || !t.NVML {
		return out, err
	}
	return out, needsAtMost(out, Glibc)
}

// inside builds the programs that muster carries and returns the file that tells
// the go command to take them instead of this machine's.
func (b Builder) inside(ctx context.Context, t Target) (string, error) {
	folder := filepath.Join(b.Work, "inside-"+t.Arch)
	replace := map[string]string{}
	for _, name := range []string{"muster-shim", "muster-worker"} {
		out := filepath.Join(folder, name)
		env := Target{OS: "linux", Arch: t.Arch}.Environment()
		if err := b.run(ctx, env, "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid=", "-o", out, "./cmd/"+name); err != nil {
			return "", err
		}
		replace[filepath.Join(b.Root, "internal", "node", "shim", "bin", name)] = out
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", fmt.Errorf("encoding the overlay: %w", err)
	}
	overlay := filepath.Join(folder, "overlay.json")
	if err := os.WriteFile(overlay, text, 0o644); err != nil {
		return "", fmt.Errorf("writing the overlay: %w", err)
	}
	return overlay, nil
}

// list returns what `go list` prints.
func (b Builder) list(ctx context.Context, env []string, args ...string) (string, error) {
	var out bytes.Buffer
	err := start(b.command(ctx, env, "list", args...), &out)
	return out.String(), err
}

func (b Builder) run(ctx context.Context, env []string, verb string, args ...string) error {
	return start(b.command(ctx, env, verb, args...), new(bytes.Buffer))
}

func (b Builder) command(ctx context.Context, env []string, verb string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", append([]string{verb}, args...)...)
	cmd.Dir = b.Root
	cmd.Env = append(os.Environ(), env...)
	return cmd
}

// start runs a command to its end, with what it complained of in the error.
func start(cmd *exec.Cmd, out *bytes.Buffer) error {
	var errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = out, &errs
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("running %s: %w", strings.Join(cmd.Args, " "), errors.Join(err, errors.New(strings.TrimSpace(errs.String()))))
	}
	return nil
}
