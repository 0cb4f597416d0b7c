//go:build linux

package confinement

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/account"
	"github.com/muster-dev/muster/internal/node/process"
)

const (
	// builder is the user, and the group, of confined programs. Distributions
	// give the number to no one.
	builder = 61007
	// maxProcesses bounds the processes and threads of a program.
	maxProcesses = 4096
	// share is the processor time of programs where jobs need it, in thousandths
	// of a CPU.
	share = 250
)

// Options set up a [Confinement]. Dir and Shim are required.
type Options struct {
	// Dir holds the folders of running programs.
	Dir string
	// Shim is the path of the shim's binary.
	Shim string
	// Hidden are folders that no confined program sees.
	Hidden []string
	// Plain leaves programs unconfined, although this machine may allow more.
	Plain bool
}

// Confinement runs programs.
type Confinement struct {
	runtime *process.Runtime
	dir     string
	hidden  []string
	limits  *process.Limits
	// reason explains why programs are not confined; it is empty if they are.
	reason string
}

// Open ends programs that an earlier Muster left running, and finds out whether this
// machine allows confinement.
func Open(ctx context.Context, o Options) (*Confinement, error) {
	runtime, err := process.New(process.Options{Root: o.Dir, Shim: o.Shim})
	if err != nil {
		return nil, fmt.Errorf("preparing to build environments: %w", err)
	}
	if err := clear(ctx, runtime, o.Dir); err != nil {
		runtime.Close()
		return nil, fmt.Errorf("ending earlier builds of environments: %w", err)
	}
	c := &Confinement{runtime: runtime, dir: o.Dir}
	if o.Plain {
		c.reason = "as configured"
	} else if able, reason := runtime.IsolationAvailable(ctx); !able {
		c.reason = reason
	}
	c.hidden = places(append(o.Hidden, homes(ctx)...))
	if able, _ := process.LimitsAvailable(); able {
		c.limits = &process.Limits{MemoryBytes: halfOfMemory(), PIDs: maxProcesses, CPURequestMillis: share}
	}
	return c, nil
}

// clear ends the programs that have a folder in dir, and empties dir.
func clear(ctx context.Context, runtime *process.Runtime, dir string) error {
	left, err := runtime.Adopt(ctx)
	for _, p := range left {
		err = errors.Join(err, p.Kill(ctx), p.Remove())
	}
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}

// Confined reports whether programs are confined, and if not, why.
func (c *Confinement) Confined() (bool, string) { return c.reason == "", c.reason }

// Close ends all programs.
func (c *Confinement) Close() { c.runtime.Close() }

// Give changes the owner of a file or folder to the programs' user, so that programs can
// write to it. The caller ensures that no other user may write to it.
func (c *Confinement) Give(path string) error {
	if c.reason != "" {
		return nil
	}
	if err := os.Lchown(path, builder, builder); err != nil {
		return fmt.Errorf("giving %s to the user of builds: %w", path, err)
	}
	return nil
}

// GiveAll is Give for a folder with all its files and folders.
func (c *Confinement) GiveAll(path string) error {
	return filepath.WalkDir(path, func(at string, _ os.DirEntry, err error) error {
		return errors.Join(err, c.Give(at))
	})
}

// Take changes the owner of a folder, and of all files of programs in it, to Muster's user,
// after the programs have ended. It follows no link.
func (c *Confinement) Take(ctx context.Context, path string) error {
	if c.reason != "" {
		return nil
	}
	return filepath.WalkDir(path, func(at string, entry os.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			// Lchown also removes the set-user-ID bit of programs.
			err = os.Lchown(at, os.Geteuid(), os.Getegid())
		}
		if err == nil && entry.IsDir() {
			// Only root can walk a folder that its owner may not read.
			err = os.Chmod(at, 0o755)
		}
		return err
	})
}

// homes are the folders of the user who runs Muster.
func homes(ctx context.Context) []string {
	found := []string{os.Getenv("HOME"), os.Getenv("XDG_RUNTIME_DIR")}
	users := account.New(account.Options{})
	defer users.Close()
	if own, known := users.Own(ctx); known {
		found = append(found, own.Home)
	}
	return found
}

// places are the real paths of those folders that exist, but for the root.
func places(folders []string) []string {
	var out []string
	for _, folder := range folders {
		path, err := filepath.EvalSymlinks(folder)
		if err == nil && filepath.IsAbs(path) && path != "/" {
			out = append(out, path)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// halfOfMemory is half of the machine's memory, in bytes: the other half is the
// jobs'.
func halfOfMemory() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return int64(info.Totalram) * int64(info.Unit) / 2
}
