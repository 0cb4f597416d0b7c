//go:build linux

package landlock

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrUnavailable is wrapped by the error of a kernel that has no Landlock.
var ErrUnavailable = errors.New("the kernel has no Landlock")

// Access is a set of rights to files.
type Access uint64

const (
	// Read is the right to read files and to list folders.
	Read Access = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	// Change is the right to write, make, move and remove files, folders and links.
	Change Access = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_REFER |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_SYM |
		unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR
	// ofFiles are the rights that a rule for a file, and not a folder, may have.
	ofFiles Access = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
)

// Rule is access that a process keeps.
type Rule struct {
	// Below is an open file or folder.
	Below *os.File
	// Access counts for the file, or for everything below the folder.
	Access Access
}

// Restrict denies the process all access to files that no rule names, and all TCP
// connections. It also keeps the process from gaining rights by programs that it starts
// (no_new_privs). Kernels older than Linux 6.7 do not restrict the network. The error wraps
// [ErrUnavailable] where files cannot be restricted; the process has lost nothing then but
// the gain by programs.
//
// Go cannot restrict all threads of a program that is linked with C. Such a program is started
// anew, with the same arguments and open files: there Restrict does nothing. So it comes first
// in a program. The program may then also read and run itself and the libraries of the system.
func Restrict(rules ...Rule) error {
	switch os.Getenv(restarted) {
	case "1":
		return nil
	case "none":
		return fmt.Errorf("restricting the process: %w", ErrUnavailable)
	}
	all := threads{}
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_GETPID, 0, 0, 0); errno == unix.ENOTSUP {
		runtime.LockOSThread() // to the end of the program: it is this thread that starts it anew
		all.one = true
		rules = append(slices.Clone(rules), ownFiles()...)
	}
	if err := all.call("giving up rights by programs", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1); err != nil {
		return err
	}
	set, err := makeSet(rules)
	if all.one && errors.Is(err, ErrUnavailable) {
		return again("none") // with no_new_privs for all threads
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(set) }()
	if err := all.call("restricting the process by Landlock", unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(set), 0); err != nil || !all.one {
		return err
	}
	return again("1")
}

// again starts the program anew, with the restrictions of this thread. It returns only an error.
func again(how string) error {
	err := unix.Exec(self, os.Args, append(os.Environ(), restarted+"="+how))
	return fmt.Errorf("starting the restricted program: %w", err)
}

const (
	// restarted is the variable of a program that was started anew: 1, or none if the kernel
	// has no Landlock.
	restarted = "MUSTER_LANDLOCK"
	// self is the program that runs.
	self = "/proc/self/exe"
)

// threads makes system calls that count for one thread, on all threads or on this one.
type threads struct{ one bool }

// call makes a system call. Doing describes the purpose for the error.
func (t threads) call(doing string, number, a, b uintptr) error {
	var errno syscall.Errno
	if t.one {
		_, _, errno = unix.Syscall6(number, a, b, 0, 0, 0, 0)
	} else {
		_, _, errno = syscall.AllThreadsSyscall6(number, a, b, 0, 0, 0, 0)
	}
	if errno != 0 {
		return fmt.Errorf("%s: %w", doing, errno)
	}
	return nil
}

// ownFiles are the files of a program that is linked with C: itself and its libraries. They
// stay open until the program ends, or is started anew.
func ownFiles() (rules []Rule) {
	for _, path := range []string{self, "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache"} {
		if file, err := os.Open(path); err == nil {
			rules = append(rules, Rule{Below: file, Access: Read | unix.LANDLOCK_ACCESS_FS_EXECUTE})
		}
	}
	return rules
}

// makeSet makes a set of rules, as a file descriptor.
func makeSet(rules []Rule) (int, error) {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return -1, fmt.Errorf("asking the kernel for its version of Landlock: %w (%w)", ErrUnavailable, errno)
	}
	handled := handledBy(int(version))
	attr := unix.LandlockRulesetAttr{Access_fs: uint64(handled)}
	if version >= 4 {
		attr.Access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	set, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return -1, fmt.Errorf("making a set of Landlock rules: %w", errno)
	}
	for _, r := range rules {
		if err := add(set, r, handled); err != nil {
			return -1, errors.Join(err, unix.Close(int(set)))
		}
	}
	return int(set), nil
}

// handledBy returns the rights to files that a version of Landlock knows. The kernel denies
// handled rights that no rule names.
func handledBy(version int) Access {
	handled := Access(unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1)
	if version >= 2 {
		handled |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if version >= 3 {
		handled |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if version >= 5 {
		handled |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	return handled
}

// add adds a rule to a set.
func add(set uintptr, r Rule, handled Access) error {
	info, err := r.Below.Stat()
	if err != nil {
		return fmt.Errorf("making a Landlock rule: %w", err)
	}
	access := r.Access & handled
	if !info.IsDir() {
		access &= ofFiles
	}
	attr := unix.LandlockPathBeneathAttr{Allowed_access: uint64(access), Parent_fd: int32(r.Below.Fd())}
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, set, unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&attr)), 0, 0, 0); errno != 0 {
		return fmt.Errorf("making a Landlock rule for %s: %w", r.Below.Name(), errno)
	}
	return nil
}
