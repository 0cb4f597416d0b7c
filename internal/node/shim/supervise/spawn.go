package supervise

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/shim/contract"
	"github.com/muster-dev/muster/internal/node/shim/enclosure"
	"github.com/muster-dev/muster/internal/node/shim/execution"
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
	child child
	err   *startError
}

// child is a process that was started. Its stage becomes another user first; nil: there is none,
// and the program runs.
type child struct {
	pid   int
	stage *execution.Stage
}

// stageLimit bounds the time until a program is executed as another user. A file server that
// hangs, or the user, could keep the container from ending.
const stageLimit = time.Minute

// executed waits until the child's program runs, or returns why it does not. Exited is where the
// child's status is sent.
func (s *supervisor) executed(c child, exited <-chan syscall.WaitStatus) *startError {
	if c.stage == nil {
		return nil
	}
	f, stuck := c.stage.Executed(stageLimit)
	switch {
	case stuck:
		s.killSession(c.pid)
	case f != nil:
		<-exited // it has nothing more to say
	}
	return faultOf(f)
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
			child, err := s.fork(r.command, r.exited)
			r.answer <- spawnAnswer{child, err}
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
func (s *supervisor) spawn(c command, exited chan<- syscall.WaitStatus) (child, *startError) {
	answer := make(chan spawnAnswer)
	s.spawner <- spawnRequest{c, exited, answer}
	a := <-answer
	return a.child, a.err
}

// fork runs on the spawner's thread.
func (s *supervisor) fork(c command, exited chan<- syscall.WaitStatus) (child, *startError) {
	if c.dir == "" {
		c.dir = "/"
	}
	attr := &syscall.ProcAttr{
		Files: []uintptr{uintptr(c.files[0]), uintptr(c.files[1]), uintptr(c.files[2])},
		Sys:   &syscall.SysProcAttr{Setsid: true, Setctty: c.tty, Pdeathsig: syscall.SIGKILL},
	}
	if u := s.users(); u != nil {
		// Each process has a namespace of its own, with the same numbers: only a process with one
		// thread can join another's. Its root becomes the container's user.
		attr.Sys.Cloneflags |= unix.CLONE_NEWUSER
		attr.Sys.UidMappings, attr.Sys.GidMappings = enclosure.Mappings(*u)
		attr.Sys.GidMappingsEnableSetgroups = true
		attr.Sys.Credential = &syscall.Credential{}
	}
	for _, g := range s.groups {
		if g.Unified {
			attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, g.fd
		}
	}
	start := s.execute
	if s.credential() != nil || s.spec.Owner != nil {
		start = s.become
	}
	return start(execution.Program{Argv: c.argv, Env: c.env, Dir: c.dir}, attr, exited)
}

// execute starts a program as the shim's own user.
func (s *supervisor) execute(p execution.Program, attr *syscall.ProcAttr, exited chan<- syscall.WaitStatus) (child, *startError) {
	if f := execution.CheckDir(p.Dir); f != nil {
		return child{}, faultOf(f)
	}
	path, f := p.LookUp()
	if f != nil {
		return child{}, faultOf(f)
	}
	attr.Dir, attr.Env = p.Dir, p.Env
	return s.enlist(exited, func() (child, error) {
		pid, err := syscall.ForkExec(path, p.Argv, attr)
		return child{pid: pid}, err
	}, func(err error) *startError { return faultOf(p.Explain(err, path)) })
}

// become starts the second stage of a program, which becomes the container's user.
func (s *supervisor) become(p execution.Program, attr *syscall.ProcAttr, exited chan<- syscall.WaitStatus) (child, *startError) {
	o := execution.Order{
		Program: p, Parent: os.Getpid(), UID: uint32(os.Getuid()), GID: uint32(os.Getgid()),
		Owner: s.spec.Owner, Processes: s.order.Processes,
	}
	if c := s.credential(); c != nil {
		o.UID, o.GID, o.Groups = c.Uid, c.Gid, c.Groups
	}
	return s.enlist(exited, func() (child, error) {
		stage, err := execution.Start(o, *attr)
		if err != nil {
			return child{}, err
		}
		return child{pid: stage.PID, stage: stage}, nil
	}, func(err error) *startError {
		return fault(contract.ReasonInternal, "starting a process for user %d: %v", o.UID, err)
	})
}

// enlist starts a process and notes it as a child, unless the container has ended.
func (s *supervisor) enlist(exited chan<- syscall.WaitStatus, start func() (child, error), explain func(error) *startError) (child, *startError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending || s.leaving {
		return child{}, errEnded
	}
	c, err := start()
	switch {
	case errors.Is(err, syscall.EAGAIN):
		return child{}, fault(contract.ReasonLimits, "no process can be started: the container, or its user, has as many processes and threads as it may: end some of them")
	case err != nil:
		return child{}, explain(err)
	}
	s.children[c.pid] = exited
	return c, nil
}

// users are the numbers of the container's user namespace. Nil: it has none.
func (s *supervisor) users() *contract.Users {
	if s.spec.Isolation == nil {
		return nil
	}
	return s.spec.Isolation.Users
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
	if s.users() != nil {
		return c // root of the machine is no user inside
	}
	if c.Uid == uid && c.Gid == gid && len(c.Groups) == 0 {
		return nil
	}
	return c
}
