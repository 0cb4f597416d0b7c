package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const groupMount = "/sys/fs/cgroup"

// hierarchies are the folders in which a control group has to exist: one for
// each controller with version 1, a single one with version 2.
func hierarchies() ([]string, error) {
	if _, err := os.Stat(filepath.Join(groupMount, "cgroup.controllers")); err == nil {
		return []string{groupMount}, nil
	}
	entries, err := os.ReadDir(groupMount)
	if err != nil {
		return nil, fmt.Errorf("looking for control groups: %w", err)
	}
	var all []string
	for _, entry := range entries {
		if entry.IsDir() {
			all = append(all, filepath.Join(groupMount, entry.Name()))
		}
	}
	return all, nil
}

// makeGroup makes the control group below which a kubelet puts its pods.
func makeGroup(name string) error {
	parents, err := hierarchies()
	if err != nil {
		return err
	}
	for _, parent := range parents {
		group := filepath.Join(parent, name)
		if err := os.Mkdir(group, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("making a control group: %w", err)
		}
		// With version 1 a group may use no processor until it is told which.
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			value, err := os.ReadFile(filepath.Join(parent, file))
			if err != nil {
				continue
			}
			if err := os.WriteFile(filepath.Join(group, file), value, 0); err != nil {
				return fmt.Errorf("passing on %s: %w", file, err)
			}
		}
	}
	return nil
}

// removeGroups removes the control groups whose names match pattern and those
// below. The processes that were in them have ended, or are about to.
func removeGroups(ctx context.Context, pattern string) error {
	parents, err := hierarchies()
	if err != nil {
		return err
	}
	for _, parent := range parents {
		groups, err := filepath.Glob(filepath.Join(parent, pattern))
		if err != nil {
			return fmt.Errorf("looking for control groups: %w", err)
		}
		for _, group := range groups {
			if err := removeGroup(ctx, group); err != nil {
				return err
			}
		}
	}
	return nil
}

func removeGroup(ctx context.Context, group string) error {
	var folders []string
	err := filepath.WalkDir(group, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			folders = append(folders, path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("reading the control group %s: %w", group, err)
	}
	for _, folder := range slices.Backward(folders) {
		if err := removeFolder(ctx, folder); err != nil {
			return err
		}
	}
	return nil
}

// removeFolder waits while the kernel still counts a process that has ended;
// nothing signals when it does not any more.
func removeFolder(ctx context.Context, folder string) error {
	for {
		err := unix.Rmdir(folder)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("removing the control group %s: %w", folder, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("removing the control group %s, in which something still runs: %w", folder, ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}
