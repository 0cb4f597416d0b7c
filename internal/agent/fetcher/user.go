//go:build linux

package fetcher

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/osfile"
)

// user is the user, and the group, of the process. Distributions give the number to no one.
const user = 61008

// another reports whether the process runs as a user of its own: this one is root, and the
// user exists in its user namespace.
func another() bool {
	if os.Geteuid() != 0 {
		return false
	}
	text, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			continue
		}
		first, err := strconv.ParseUint(fields[0], 10, 64)
		count, err2 := strconv.ParseUint(fields[2], 10, 64)
		if errors.Join(err, err2) == nil && first <= user && user-first < count {
			return true
		}
	}
	return false
}

// rights are those of the process: another user without capabilities, and namespaces in which
// it sees no network, no processes and no shared memory of others.
func rights() *syscall.SysProcAttr {
	if !another() {
		return &syscall.SysProcAttr{}
	}
	return &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: user, Gid: user},
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWIPC,
	}
}

// give gives a folder to the user of the process, with what earlier agents wrote there as
// root: of trees, which are never changed, the folders of namespaces; of the cache (deep)
// everything. An entry is given after what is in it, so that an interrupted call is repeated
// from there. What the user has already is left alone.
func give(ctx context.Context, dir string, deep bool) error {
	if !another() {
		return nil
	}
	top, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = top.Close() }()
	err = osfile.Each(top, func(e fs.DirEntry) error {
		if err := ctx.Err(); err != nil || !e.IsDir() {
			return err
		}
		info, err := top.Lstat(e.Name())
		if err != nil || !info.IsDir() || owner(info) == user {
			return err
		}
		if deep {
			if err := giveBelow(ctx, top, e.Name()); err != nil {
				return err
			}
		}
		return top.Lchown(e.Name(), user, user)
	})
	if err == nil {
		err = top.Lchown(".", user, user)
	}
	if err != nil {
		return fmt.Errorf("giving %s to the user of the fetcher: %w", dir, err)
	}
	return nil
}

// giveBelow gives everything below a folder.
func giveBelow(ctx context.Context, in *os.Root, name string) error {
	folder, err := osfile.OpenFolder(in, name)
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }()
	return osfile.Walk(folder, func(_ string, in *os.Root, e fs.DirEntry) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return in.Lchown(e.Name(), user, user)
	})
}

// owner is the user of a file.
func owner(info fs.FileInfo) uint32 {
	stat, is := info.Sys().(*syscall.Stat_t)
	if !is {
		return 0
	}
	return stat.Uid
}

// giveOne gives a file.
func giveOne(path string) error {
	if !another() {
		return nil
	}
	return os.Lchown(path, user, user)
}
