package execution

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/shim/contract"
)

// run carries out the order of the second stage. It returns only if that cannot be done.
//
//  1. Close all files but the standard ones with the execution.
//  2. Become the user. What the kernel keeps by thread is that of this one, which alone lives on.
//  3. Enter the working directory, look up the program and execute it, as the user.
func run(status *os.File) *Fault {
	runtime.LockOSThread()
	if err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		for _, fd := range []int{orderFD, statusFD} { // before Linux 5.11; the shim's own are closed already
			unix.CloseOnExec(fd)
		}
	}
	o, err := receive()
	if err != nil {
		return fault(contract.ReasonInternal, "%v", err)
	}
	if err := o.become(); err != nil {
		return fault(contract.ReasonUser, "running as user %d and group %d is not possible: %v", o.UID, o.GID, err)
	}
	return o.execute(status)
}

// execute enters the working directory and executes the program.
func (o Order) execute(status *os.File) *Fault {
	if err := os.Chdir(o.Dir); err != nil {
		if f := CheckDir(o.Dir); f != nil && !errors.Is(err, fs.ErrPermission) {
			return f
		}
		return fault(contract.ReasonDirectory, "the working directory %s cannot be entered by user %d: %v", o.Dir, o.UID, errors.Unwrap(err))
	}
	o.findHome()
	path, f := o.LookUp()
	if f != nil {
		return f
	}
	if _, err := status.Write([]byte{executing}); err != nil {
		return fault(contract.ReasonInternal, "answering the shim: %v", err)
	}
	err := syscall.Exec(path, o.Argv, o.Env)
	if errors.Is(err, syscall.EAGAIN) {
		return fault(contract.ReasonLimits, "%s cannot be executed: user %d runs as many processes as it may (%d): end some of them", path, o.UID, o.Processes)
	}
	return o.Explain(err, path)
}

// findHome makes HOME the spare home where the user's home is no folder of this machine. A home
// that the user may not enter stays: its server may let them in later.
func (o *Order) findHome() {
	if o.Owner == nil || o.Owner.SpareHome == "" {
		return
	}
	at := slices.IndexFunc(o.Env, func(e string) bool { return strings.HasPrefix(e, "HOME=") })
	if at < 0 {
		return
	}
	info, err := os.Stat(strings.TrimPrefix(o.Env[at], "HOME="))
	if err == nil && !info.IsDir() || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		o.Env[at] = "HOME=" + o.Owner.SpareHome
	}
}

// become makes the process one of the user, for good.
func (o Order) become() error {
	root := os.Geteuid() == 0
	if err := o.prepare(root); err != nil {
		return err
	}
	if root {
		if err := o.setIDs(); err != nil {
			return err
		}
	}
	// The change of the user has cleared the signal.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("asking for a signal at the end of the shim: %w", err)
	}
	if os.Getppid() != o.Parent {
		return errors.New("the shim has ended")
	}
	return o.verify()
}

// prepare does what needs root's rights, or may as well be done with them.
func (o Order) prepare(root bool) error {
	// The session keyring may hold root's keys. Root's quota pays for the new one.
	// It has no name, by which others could join it.
	if _, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0); err != nil && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("making a session keyring: %w", err)
	}
	if root {
		o.giveStreams()
	}
	if o.Owner == nil {
		return nil
	}
	unix.Umask(int(o.Owner.Umask))
	if o.UID == 0 {
		return nil
	}
	if err := o.setLimits(); err != nil {
		return err
	}
	return dropBounds()
}

// giveStreams gives the user the pipes of the standard streams, so that the program can open
// /dev/stdout.
func (o Order) giveStreams() {
	for fd := range 3 {
		var info unix.Stat_t
		if unix.Fstat(fd, &info) == nil && info.Mode&unix.S_IFMT == unix.S_IFIFO && info.Uid == 0 {
			_ = unix.Fchown(fd, int(o.UID), int(o.GID))
		}
	}
}

// setLimits sets the resource limits that are not for root alone to have: a user neither raises
// priorities nor leaves core files, which hold secrets.
func (o Order) setLimits() error {
	var core unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &core); err != nil {
		return fmt.Errorf("reading the limit of core files: %w", err)
	}
	limits := map[int]unix.Rlimit{unix.RLIMIT_CORE: {Max: core.Max}, unix.RLIMIT_NICE: {}, unix.RLIMIT_RTPRIO: {}}
	if o.Processes > 0 {
		limits[unix.RLIMIT_NPROC] = unix.Rlimit{Cur: uint64(o.Processes), Max: uint64(o.Processes)}
	}
	for resource, limit := range limits {
		if err := unix.Setrlimit(resource, &limit); err != nil {
			return fmt.Errorf("setting resource limit %d: %w", resource, err)
		}
	}
	return nil
}

// dropBounds lets no program that is executed have any capability, and gain any right. Without
// the second, a set-user-ID program would run as root that cannot stop being root.
func dropBounds() error {
	for c := uintptr(0); ; c++ {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); errors.Is(err, unix.EINVAL) {
			break
		} else if err != nil {
			return fmt.Errorf("dropping capability %d: %w", c, err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("giving up new privileges: %w", err)
	}
	return nil
}

// setIDs sets groups, group and user, and gives up all capabilities.
func (o Order) setIDs() error {
	groups := make([]int, len(o.Groups))
	for i, g := range o.Groups {
		groups[i] = int(g)
	}
	if err := syscall.Setgroups(groups); err != nil {
		return fmt.Errorf("setting %d groups: %w", len(groups), err)
	}
	if err := syscall.Setresgid(int(o.GID), int(o.GID), int(o.GID)); err != nil {
		return fmt.Errorf("changing the group: %w", err)
	}
	if err := syscall.Setresuid(int(o.UID), int(o.UID), int(o.UID)); err != nil {
		return fmt.Errorf("changing the user: %w", err)
	}
	if o.UID == 0 {
		return nil
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("giving up capabilities: %w", err)
	}
	return nil
}

// verify checks that nothing of root is left: a policy of the kernel may keep capabilities.
func (o Order) verify() error {
	uid, euid, suid := unix.Getresuid()
	gid, egid, sgid := unix.Getresgid()
	for _, id := range []int{uid, euid, suid} {
		if uint32(id) != o.UID {
			return fmt.Errorf("muster runs as user %d and is not root", euid)
		}
	}
	for _, id := range []int{gid, egid, sgid} {
		if uint32(id) != o.GID {
			return fmt.Errorf("muster runs as group %d and is not root", egid)
		}
	}
	if o.UID == 0 {
		return nil
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return fmt.Errorf("reading capabilities: %w", err)
	}
	for _, d := range data {
		if d.Permitted|d.Effective|d.Inheritable != 0 {
			return errors.New("the kernel keeps capabilities of root")
		}
	}
	return nil
}
