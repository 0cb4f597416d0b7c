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

// hasOwnUser reports whether the process runs as a user of its own: the agent is root, and its
// user namespace has the user.
func hasOwnUser() bool {
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

// rights are the credentials and namespaces of the process: a user without capabilities, and
// no network, processes and shared memory of others.
func rights() *syscall.SysProcAttr {
	if !hasOwnUser() {
		return &syscall.SysProcAttr{}
	}
	return &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: user, Gid: user},
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWIPC,
	}
}

// chown makes the user of the process the owner of a folder, and of the files that earlier agents
// wrote there as root. In the cache (deep) these are all files; among trees, which never change,
// the folders of namespaces. The owner of an entry changes after those of its contents, so that
// the next call goes on after an interruption. Entries of the user are left alone.
func chown(ctx context.Context, dir string, deep bool) error {
	if !hasOwnUser() {
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
			if err := chownBelow(ctx, top, e.Name()); err != nil {
				return err
			}
		}
		return top.Lchown(e.Name(), user, user)
	})
	if err == nil {
		err = top.Lchown(".", user, user)
	}
	if err != nil {
		return fmt.Errorf("changing the owner of %s to user %d, who fetches: %w", dir, user, err)
	}
	return nil
}

// chownBelow changes the owner of everything below a folder.
func chownBelow(ctx context.Context, in *os.Root, name string) error {
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

// chownOne changes the owner of a file.
func chownOne(path string) error {
	if !hasOwnUser() {
		return nil
	}
	return os.Lchown(path, user, user)
}
