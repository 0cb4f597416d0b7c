package up

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/muster-dev/muster/internal/node/guard"
	"github.com/muster-dev/muster/internal/node/shim/lineage"
)

// openGuard attaches the device filter if it was asked for. A machine that cannot is refused.
func (m *machine) openGuard() (err error) {
	level, err := guard.ParseLevel(m.config.Guard.Devices)
	if err != nil || level == guard.None {
		return err
	}
	m.guard, err = guard.Open(guard.Options{Level: level, Groups: m.config.Guard.Groups, Kept: m.ownProcesses, Log: m.log})
	return err
}

func (m *machine) runGuard(ctx context.Context) error {
	if m.guard == nil {
		return nil
	}
	return named("the guard of the GPUs", m.guard.Run(ctx))
}

func (m *machine) describeGuard() string {
	if m.guard == nil {
		return ""
	}
	return m.guard.String()
}

// ownProcesses are this process, the shims of this data folder, and all that descends from them.
func (m *machine) ownProcesses() []int {
	roots := []int{os.Getpid()}
	for _, pid := range lineage.All() {
		if m.isShim(pid) {
			roots = append(roots, pid)
		}
	}
	all := roots
	for _, pid := range roots {
		all = append(all, lineage.Descendants(pid)...)
	}
	return all
}

// isShim reports whether a process runs a program of this data folder as Muster's own user.
func (m *machine) isShim(pid int) bool {
	folder := "/proc/" + strconv.Itoa(pid)
	program, err := os.Readlink(folder + "/exe")
	if err != nil || filepath.Dir(strings.TrimSuffix(program, " (deleted)")) != m.path("bin") {
		return false
	}
	info, err := os.Stat(folder)
	if err != nil {
		return false // it has ended
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
