//go:build e2e

package e2e

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/test/e2e/harness"
)

// gpuLocks is where the locks of a machine's GPUs are: one file a device,
// locked as long as a container has it.
const gpuLocks = "/tmp/.muster-gpu"

// withVariable returns the processes of the machine that were started with a
// variable, NAME=value.
func withVariable(variable string) []harness.Started {
	return harness.AllStarted(func(p harness.Started) bool { return slices.Contains(p.Environment, variable) })
}

// content is a file's, or empty if it is gone.
func content(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(data)
}

// servers returns the processes of a Muster itself that run these verbs.
func servers(m *harness.Muster, verbs ...string) []harness.Started {
	all := slices.DeleteFunc(withVariable("MUSTER_HOME="+m.Home), func(p harness.Started) bool {
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.PID))
		return err != nil || strings.TrimSuffix(exe, " (deleted)") != harness.Binary() ||
			len(p.Command) < 2 || !slices.Contains(verbs, p.Command[1])
	})
	// A child that has not become another program yet looks like its parent.
	return slices.DeleteFunc(slices.Clone(all), func(p harness.Started) bool {
		parent := parentOf(p.PID)
		return slices.ContainsFunc(all, func(o harness.Started) bool { return o.PID == parent && slices.Equal(o.Command, p.Command) })
	})
}

// parentOf is the process that started another; 0 if that has ended.
func parentOf(pid int) int {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// pid (name) state parent: the name may hold anything.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 2 {
		return 0
	}
	parent, _ := strconv.Atoi(fields[1])
	return parent
}

// file names a file as the kernel's table of locks does.
type file struct {
	major, minor uint32
	inode        uint64
}

// locked returns the files with a flock on them, each with a process that has
// it, from /proc/locks.
func locked() (map[file]int, error) {
	table, err := os.Open("/proc/locks")
	if err != nil {
		return nil, err
	}
	defer func() { _ = table.Close() }()
	held := map[file]int{}
	for lines := bufio.NewScanner(table); lines.Scan(); {
		// 2: FLOCK  ADVISORY  WRITE 9831 fe:00:10740257 0 EOF
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 || fields[1] != "FLOCK" {
			continue // of another kind, or one that waits
		}
		var at file
		if _, err := fmt.Sscanf(fields[5], "%x:%x:%d", &at.major, &at.minor, &at.inode); err != nil {
			return nil, fmt.Errorf("reading /proc/locks: %q: %w", lines.Text(), err)
		}
		held[at], _ = strconv.Atoi(fields[4])
	}
	return held, nil
}

// gpusHeld returns an error if one of the devices' locks is held.
func gpusHeld(devices []string) error {
	held, err := locked()
	if err != nil {
		return err
	}
	for _, device := range devices {
		path := filepath.Join(gpuLocks, device+".lock")
		var stat unix.Stat_t
		if err := unix.Stat(path, &stat); err != nil {
			return fmt.Errorf("looking for the lock %s: %w", path, err)
		}
		if pid, taken := held[file{major: unix.Major(stat.Dev), minor: unix.Minor(stat.Dev), inode: stat.Ino}]; taken {
			return fmt.Errorf("%s is held by process %d", path, pid)
		}
	}
	return nil
}
