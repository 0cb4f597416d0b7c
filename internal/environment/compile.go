//go:build linux

package environment

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sync/errgroup"
)

// maxCompilers is how many compile at most: beyond that the disk is what they
// wait for.
const maxCompilers = 8

// compile has Python compile the packages, which the installer would do with one
// processor. What cannot be compiled, such as a package's examples of another
// Python, or all of it, is compiled when it is imported.
func (b *build) compile(ctx context.Context) error {
	lists, err := sources(b.path(), min(runtime.GOMAXPROCS(0), maxCompilers))
	if err != nil {
		return fmt.Errorf("looking for what to compile: %w", err)
	}
	b.say("compiling the packages")
	// Not compileall's own way of being several: they would outlive it, and
	// hold the lock.
	var group errgroup.Group
	for i, list := range lists {
		file := filepath.Join(b.scratch(), fmt.Sprint("compile-", i))
		group.Go(func() error {
			if err := os.WriteFile(file, []byte(strings.Join(list, "\n")+"\n"), 0o600); err != nil {
				return fmt.Errorf("writing what to compile: %w", full(err))
			}
			_ = b.command(ctx, func(string) {}, filepath.Join(b.path(), "bin", "python"), "-m", "compileall", "-qq", "-i", file)
			return ctx.Err()
		})
	}
	return group.Wait()
}

// sources are the files of the packages in a virtual environment that Python
// compiles, in so many lists of about the same number of bytes; no list is
// empty.
func sources(venv string, parts int) ([][]string, error) {
	lists, sizes := make([][]string, parts), make([]int64, parts)
	packages, err := filepath.Glob(filepath.Join(venv, "lib", "python3*", "site-packages"))
	if err != nil {
		return nil, err
	}
	for _, folder := range packages {
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() || filepath.Ext(path) != ".py" || strings.Contains(path, "\n") {
				return err
			}
			info, err := entry.Info()
			if err != nil {
				return err
			}
			least := 0
			for i := range sizes {
				if sizes[i] < sizes[least] {
					least = i
				}
			}
			lists[least], sizes[least] = append(lists[least], path), sizes[least]+info.Size()+1
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	out := lists[:0]
	for _, list := range lists {
		if len(list) > 0 {
			out = append(out, list)
		}
	}
	return out, nil
}
