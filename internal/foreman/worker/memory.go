package worker

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/muster-dev/muster/internal/node/shim/contract"
)

// memory is the control group that bounds the memory of this worker and its programs.
type memory struct {
	// dir is its folder; empty: none is known.
	dir string
	// kills is the number of processes in it that the kernel had killed for lack of memory at the last
	// check.
	kills int
}

// The files of a memory control group, in version 2 and 1. The first that is there counts.
var (
	limitFiles = []string{"memory.max", "memory.limit_in_bytes"}
	peakFiles  = []string{"memory.peak", "memory.max_usage_in_bytes"}
	killFiles  = []string{"memory.events", "memory.oom_control"}
)

// ownMemory finds the control group of this process. Muster's node gives a container a group of its
// name if that has a limit. Otherwise others share the group.
func ownMemory() *memory {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return &memory{}
	}
	m := memoryOf(string(text), "/sys/fs/cgroup")
	if id := os.Getenv(contract.IDVariable); id != "" && filepath.Base(m.dir) != strings.ReplaceAll(id, "/", "_") {
		return &memory{}
	}
	return m
}

// memoryOf finds it by the text of /proc/self/cgroup. In a container with a control group namespace the
// path in the text may be unknown: the group's files are at the mount point itself.
func memoryOf(text, mount string) *memory {
	m := &memory{}
	for line := range strings.Lines(text) {
		// "4:memory:/path" or, of version 2, "0::/path"
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 || fields[1] != "" && fields[1] != "memory" {
			continue
		}
		top := path.Join(mount, fields[1])
		for _, dir := range []string{path.Join(top, path.Clean("/"+fields[2])), top} {
			if _, there := first(dir, limitFiles); there && m.dir == "" {
				m.dir = dir
			}
		}
	}
	m.kills = m.killed()
	return m
}

// spare makes the kernel kill the program for lack of memory, and not this worker, which then
// reports it. If the group cannot be changed, all of the container ends.
func (m *memory) spare() {
	if m.dir != "" {
		_ = os.WriteFile(filepath.Join(m.dir, "memory.oom.group"), []byte("0"), 0)
	}
}

// offer makes a program the first that the kernel kills for lack of memory.
func (m *memory) offer(pid int) {
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte("1000"), 0) // or it has ended
}

// explain returns the reason why a program ended, if the kernel killed a process of it since the
// last call for lack of memory. Otherwise it returns err.
func (m *memory) explain(err error) error {
	before := m.kills
	m.kills = m.killed()
	if err == nil || m.kills <= before {
		return err
	}
	limit, peak := m.bytes(limitFiles), m.bytes(peakFiles)
	switch {
	case limit == "":
		return fmt.Errorf("OOM killed: the machine had no memory left (%w)", err)
	case peak == "":
		return fmt.Errorf("OOM killed: the program needs more memory than its limit of %s; raise the stage's memory limit (%w)", limit, err)
	}
	return fmt.Errorf("OOM killed: the program needs more memory than its limit of %s (peak %s); raise the stage's memory limit (%w)", limit, peak, err)
}

// tell is explain, and writes the reason into the log of the datum, too.
func (m *memory) tell(log io.Writer, err error) error {
	before := m.kills
	err = m.explain(err)
	if err != nil && m.kills > before {
		_, _ = fmt.Fprintf(log, "muster: %v\n", err) // the datum's outcome has it
	}
	return err
}

// killed is the number of processes of the group that the kernel has killed for lack of memory.
func (m *memory) killed() int {
	text, _ := first(m.dir, killFiles)
	for line := range bytes.Lines(text) {
		if count, ok := bytes.CutPrefix(line, []byte("oom_kill ")); ok {
			kills, _ := strconv.Atoi(string(bytes.TrimSpace(count)))
			return kills
		}
	}
	return 0
}

// unbounded is the least value that means no limit in version 1.
const unbounded = 1 << 60

// bytes reads a number of bytes, in words; empty: there is none.
func (m *memory) bytes(files []string) string {
	text, _ := first(m.dir, files)
	n, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
	if err != nil || n >= unbounded {
		return ""
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// first reads the first existing one of some files of a folder.
func first(dir string, files []string) (text []byte, there bool) {
	if dir == "" {
		return nil, false
	}
	for _, file := range files {
		if text, err := os.ReadFile(filepath.Join(dir, file)); err == nil {
			return text, true
		}
	}
	return nil, false
}
