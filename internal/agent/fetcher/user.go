//go:build linux

package fetcher

import (
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

// give makes a folder, and gives it to the user of the process. What earlier agents wrote
// there goes with it: all of it with deep, else the folders of namespaces alone, since trees
// are never changed.
func give(dir string, deep bool) error {
	if err := osfile.MakeFolder(dir, 0o700); err != nil || !another() {
		return err
	}
	top, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = top.Close() }()
	info, err := top.Lstat(".")
	if err != nil {
		return err
	}
	if owner, is := info.Sys().(*syscall.Stat_t); deep && is && owner.Uid == user {
		return nil // all of it: the folder itself is given last
	}
	if deep {
		err = osfile.Walk(top, func(_ string, in *os.Root, e fs.DirEntry) error { return in.Lchown(e.Name(), user, user) })
	} else {
		err = giveNames(top)
	}
	if err == nil {
		err = top.Lchown(".", user, user)
	}
	if err != nil {
		return fmt.Errorf("giving %s to the user of the fetcher: %w", dir, err)
	}
	return nil
}

// giveNames gives everything that is directly in a folder.
func giveNames(in *os.Root) error {
	entries, err := osfile.Names(in)
	for _, e := range entries {
		err = errors.Join(err, in.Lchown(e.Name(), user, user))
	}
	return err
}

// giveOne gives a file.
func giveOne(path string) error {
	if !another() {
		return nil
	}
	return os.Lchown(path, user, user)
}
