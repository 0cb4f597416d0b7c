package userfiles

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// become makes the whole process one of the user, for good: without root's capabilities, and without a way
// to gain rights. It is for a program without C: the calls have to reach all threads.
//
// The process was root, so it is not dumpable afterwards: its user can stop and kill it, but neither
// trace it nor open its files in /proc.
func become(u User) error {
	// The user's processes count for the limit of the user's number, not for that of a helper.
	unlimited := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	if os.Geteuid() == 0 {
		if err := unix.Setrlimit(unix.RLIMIT_NPROC, &unlimited); err != nil && !errors.Is(err, unix.EPERM) {
			return fmt.Errorf("lifting the limit of processes: %w", err)
		}
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("limiting core files: %w", err)
	}
	if os.Geteuid() == 0 {
		groups := make([]int, len(u.Groups))
		for i, g := range u.Groups {
			groups[i] = int(g)
		}
		if err := syscall.Setgroups(groups); err != nil {
			return fmt.Errorf("setting the groups: %w", err)
		}
		if err := syscall.Setresgid(int(u.GID), int(u.GID), int(u.GID)); err != nil {
			return fmt.Errorf("becoming group %d: %w", u.GID, err)
		}
		if err := syscall.Setresuid(int(u.UID), int(u.UID), int(u.UID)); err != nil {
			return fmt.Errorf("becoming user %d: %w", u.UID, err)
		}
	}
	for _, option := range [][2]uintptr{{unix.PR_SET_NO_NEW_PRIVS, 1}, {unix.PR_SET_DUMPABLE, 0}} {
		if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_PRCTL, option[0], option[1], 0); errno != 0 {
			return fmt.Errorf("giving up the gain of rights: %w", errno)
		}
	}
	syscall.Umask(0o077)
	return errors.Join(os.Chdir("/"), u.verify())
}

// verify checks that nothing of root is left. A policy of the kernel can let a process keep capabilities.
func (u User) verify() error {
	real, effective, saved := unix.Getresuid()
	if real != int(u.UID) || effective != int(u.UID) || saved != int(u.UID) {
		return fmt.Errorf("the helper has the users %d, %d and %d in place of %d", real, effective, saved, u.UID)
	}
	if u.UID == 0 {
		return nil
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return fmt.Errorf("reading the helper's capabilities: %w", err)
	}
	if data[0].Permitted|data[0].Effective|data[1].Permitted|data[1].Effective != 0 {
		return errors.New("the helper has kept capabilities of root")
	}
	return nil
}
