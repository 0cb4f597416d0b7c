package supervise

import (
	"bytes"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/shim/contract"
)

// groupFolder is a control group of the container, kept open since its path
// may come to mean something else inside.
type groupFolder struct {
	contract.Group
	fd int
}

func (s *supervisor) openGroups() *startError {
	for _, g := range s.order.Groups {
		fd, err := unix.Open(g.Path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fault(contract.ReasonLimits, "opening the control group %s: %v", g.Path, err)
		}
		s.groups = append(s.groups, groupFolder{g, fd})
	}
	return nil
}

func (g groupFolder) write(file, value string) error {
	fd, err := unix.Openat(g.fd, file, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	_, err = unix.Write(fd, []byte(value))
	return err
}

// kills is how many processes the kernel has ended for want of memory.
func (g groupFolder) kills() int {
	file := "memory.oom_control"
	if g.Unified {
		file = "memory.events"
	}
	fd, err := unix.Openat(g.fd, file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer func() { _ = unix.Close(fd) }()
	var buf [512]byte
	n, _ := unix.Read(fd, buf[:])
	for line := range bytes.Lines(buf[:max(n, 0)]) {
		if count, ok := bytes.CutPrefix(line, []byte("oom_kill ")); ok {
			kills, _ := strconv.Atoi(string(bytes.TrimSpace(count)))
			return kills
		}
	}
	return 0
}

// outOfMemory says whether a process of the tree was ended for want of memory.
func (s *supervisor) outOfMemory() bool {
	for _, g := range s.groups {
		if g.Memory && g.kills() > 0 {
			return true
		}
	}
	return false
}
