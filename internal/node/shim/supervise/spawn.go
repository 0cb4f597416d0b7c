package supervise

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/shim/contract"
)

// command is one process to start.
type command struct {
	argv, env []string
	dir       string
	files     [3]int
	tty       bool // files[0] is a terminal to be controlled by
}

type spawnRequest struct {
	command command
	exited  chan<- syscall.WaitStatus
	answer  chan<- spawnAnswer
}

type spawnAnswer struct {
	pid int
	err *startError
}

// startSpawner starts the one thread that starts processes. Namespaces of the
// network and control groups of version 1 belong to threads and are inherited;
// and the death signal that ties the tree to the shim is sent when the thread
// that started a process ends, so this one never does.
func (s *supervisor) startSpawner(netns int) *startError {
	s.spawner = make(chan spawnRequest)
	ready := make(chan *startError)
	offFirstThread(func() {
		err := s.placeThread(netns)
		ready <- err
		for err == nil {
			r := <-s.spawner
			pid, err := s.fork(r.command, r.exited)
			r.answer <- spawnAnswer{pid, err}
		}
	})
	return <-ready
}

// offFirstThread runs f in a goroutine that has a thread of its own, but not
// the process's first one, which stands for the whole process in memory groups
// and in /proc.
func offFirstThread(f func()) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != os.Getpid() {
			f()
			return
		}
		// As long as this goroutine holds the first thread, no other is put
		// there.
		placed := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(placed)
			f()
		}()
		<-placed
		runtime.UnlockOSThread()
	}()
}

// placeThread moves the calling thread to where its children are to be.
func (s *supervisor) placeThread(netns int) *startError {
	if netns >= 0 {
		if err := unix.Setns(netns, unix.CLONE_NEWNET); err != nil {
			return fault(contract.ReasonIsolation, "joining the network namespace %s: %v", s.spec.Isolation.NetNS, err)
		}
		_ = unix.Close(netns)
	}
	if s.spec.NoNewPrivileges || s.confined() {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fault(contract.ReasonInternal, "giving up new privileges: %v", err)
		}
	}
	for _, g := range s.groups {
		if !g.Unified {
			if err := g.write("tasks", "0"); err != nil {
				return fault(contract.ReasonLimits, "entering the control group %s: %v", g.Path, err)
			}
		}
	}
	return nil
}

// confined reports whether the container is to gain no rights since it does not run as root.
func (s *supervisor) confined() bool {
	if s.spec.Isolation == nil || !s.spec.Isolation.Confine {
		return false
	}
	c := s.credential()
	return c != nil && c.Uid != 0 || c == nil && os.Getuid() != 0
}

// errEnded says that the container has ended, so that nothing may start in it.
var errEnded = fault(contract.ReasonInternal, "the container has ended")

// spawn starts a process. Its status is sent to exited, which must have room.
func (s *supervisor) spawn(c command, exited chan<- syscall.WaitStatus) (int, *startError) {
	answer := make(chan spawnAnswer)
	s.spawner <- spawnRequest{c, exited, answer}
	a := <-answer
	return a.pid, a.err
}

// fork runs on the spawner's thread.
func (s *supervisor) fork(c command, exited chan<- syscall.WaitStatus) (int, *startError) {
	if c.dir == "" {
		c.dir = "/"
	}
	if err := checkDir(c.dir); err != nil {
		return 0, err
	}
	path, startErr := lookUp(c)
	if startErr != nil {
		return 0, startErr
	}
	attr := &syscall.ProcAttr{
		Dir: c.dir, Env: c.env,
		Files: []uintptr{uintptr(c.files[0]), uintptr(c.files[1]), uintptr(c.files[2])},
		Sys:   &syscall.SysProcAttr{Setsid: true, Setctty: c.tty, Pdeathsig: syscall.SIGKILL},
	}
	attr.Sys.Credential = s.credential()
	for _, g := range s.groups {
		if g.Unified {
			attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, g.fd
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending || s.leaving {
		return 0, errEnded
	}
	pid, err := syscall.ForkExec(path, c.argv, attr)
	if err != nil {
		return 0, explain(err, path, c, attr.Sys.Credential)
	}
	s.children[pid] = exited
	return pid, nil
}

// credential is the user to change to. Nil: none.
func (s *supervisor) credential() *syscall.Credential {
	uid, gid := uint32(os.Getuid()), uint32(os.Getgid())
	c := &syscall.Credential{Uid: uid, Gid: gid, Groups: s.spec.Groups}
	if s.spec.UID != nil {
		c.Uid = *s.spec.UID
	}
	if s.spec.GID != nil {
		c.Gid = *s.spec.GID
	}
	if c.Uid == uid && c.Gid == gid && len(c.Groups) == 0 {
		return nil
	}
	return c
}

func checkDir(dir string) *startError {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fault(contract.ReasonDirectory, "the working directory %s does not exist", dir)
	case err != nil:
		return fault(contract.ReasonDirectory, "the working directory %s cannot be used: %v", dir, err)
	case !info.IsDir():
		return fault(contract.ReasonDirectory, "the working directory %s is no directory", dir)
	}
	return nil
}

// lookUp finds the command's file as a shell would: in PATH, or relative to
// the working directory where it has a slash.
func lookUp(c command) (string, *startError) {
	if len(c.argv) == 0 || c.argv[0] == "" {
		return "", fault(contract.ReasonNotFound, "no command was given")
	}
	name := c.argv[0]
	if strings.Contains(name, "/") {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(c.dir, path)
		}
		return path, checkFile(name, path)
	}
	list := os.Getenv("PATH")
	for _, e := range slices.Backward(c.env) {
		if value, ok := strings.CutPrefix(e, "PATH="); ok {
			list = value
			break
		}
	}
	var firstErr *startError
	for _, folder := range filepath.SplitList(list) {
		if !filepath.IsAbs(folder) {
			folder = filepath.Join(c.dir, folder)
		}
		path := filepath.Join(folder, name)
		if _, err := os.Stat(path); err != nil {
			continue // nor is it there for who may not look into the folder
		}
		err := checkFile(name, path)
		if err == nil {
			return path, nil
		}
		if firstErr == nil {
			firstErr = err
		}
	}
	if firstErr != nil {
		return "", firstErr
	}
	return "", fault(contract.ReasonNotFound, "command not found: %q is in none of the folders of PATH; is it installed in this environment?", name)
}

func checkFile(name, path string) *startError {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return fault(contract.ReasonNotFound, "command not found: %s does not exist", path)
	case err != nil:
		return fault(contract.ReasonNotExecutable, "%s cannot be executed: %v", path, err)
	case info.IsDir():
		return fault(contract.ReasonNotExecutable, "%s cannot be executed: it is a directory", path)
	case info.Mode()&0o111 == 0:
		return fault(contract.ReasonNotExecutable, "%s cannot be executed: it is not marked executable (mode %s); run chmod +x on it, or name its interpreter (python %s)", path, info.Mode().Perm(), name)
	}
	return nil
}

// explain says what an execution that was refused by the kernel means.
func explain(err error, path string, c command, cred *syscall.Credential) *startError {
	switch {
	case errors.Is(err, syscall.ENOENT):
		return fault(contract.ReasonNotFound, "%s cannot be executed: its interpreter does not exist%s", path, interpreter(path))
	case errors.Is(err, syscall.ENOEXEC):
		return fault(contract.ReasonNotExecutable, "%s cannot be executed: exec format error: it is neither a program for this machine nor a script that begins with #!", path)
	case errors.Is(err, syscall.E2BIG):
		return fault(contract.ReasonNotExecutable, "%s cannot be executed: its arguments and environment are too long", path)
	case errors.Is(err, syscall.EPERM) && cred != nil && os.Getuid() != 0:
		return fault(contract.ReasonUser, "running as user %d and group %d is not permitted: muster runs as user %d and is not root", cred.Uid, cred.Gid, os.Getuid())
	case errors.Is(err, syscall.EACCES):
		return fault(contract.ReasonNotExecutable, "%s cannot be executed in %s: permission denied, by the file, a folder above it or its file system", path, c.dir)
	}
	return fault(contract.ReasonNotExecutable, "%s cannot be executed: %v", path, err)
}

// interpreter quotes the first line of a script, for people.
func interpreter(path string) string {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a program may have put a pipe there meanwhile
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	buf := make([]byte, 128)
	n, _ := f.Read(buf)
	line, _, _ := strings.Cut(string(buf[:n]), "\n")
	if !strings.HasPrefix(line, "#!") {
		return ""
	}
	return " (" + strings.TrimRight(line, "\r") + ")"
}
