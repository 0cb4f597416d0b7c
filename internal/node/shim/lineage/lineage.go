package lineage

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Stat is what /proc/<pid>/stat says of a process.
type Stat struct {
	// State is the kernel's letter: 'Z' is a process that has ended and was
	// not yet waited for.
	State byte
	// Parent is the parent's number.
	Parent int
	// Group and Session are the process group and the session.
	Group, Session int
	// CPUTicks is the time used by the process itself, in clock ticks.
	CPUTicks uint64
	// ReapedTicks is the time used by the children it waited for.
	ReapedTicks uint64
	// StartTicks is when it started, in clock ticks after boot.
	StartTicks uint64
	// RSSPages is its resident memory, in pages.
	RSSPages int64
}

// TicksPerSecond is the unit of Stat's times: the kernel's USER_HZ, which is
// the same on every Linux that Go runs on.
const TicksPerSecond = 100

// Read reads a process's Stat. The error is fs.ErrNotExist where there is no
// such process.
func Read(pid int) (Stat, error) {
	path := "/proc/" + strconv.Itoa(pid) + "/stat"
	data, err := os.ReadFile(path)
	if err != nil {
		return Stat{}, err
	}
	return parse(path, data)
}

func parse(path string, data []byte) (Stat, error) {
	// The name, in parentheses, may hold spaces and parentheses itself.
	i := bytes.LastIndexByte(data, ')')
	fields := strings.Fields(string(data[i+1:]))
	if i < 0 || len(fields) < 22 {
		return Stat{}, fmt.Errorf("reading %s: %d fields, expected at least 22", path, len(fields))
	}
	number := func(field int) uint64 {
		// Field numbers are those of proc(5), where the state is field 3.
		n, _ := strconv.ParseUint(fields[field-3], 10, 64)
		return n
	}
	return Stat{
		State:       fields[0][0],
		Parent:      int(number(4)),
		Group:       int(number(5)),
		Session:     int(number(6)),
		CPUTicks:    number(14) + number(15),
		ReapedTicks: number(16) + number(17),
		StartTicks:  number(22),
		RSSPages:    int64(number(24)),
	}, nil
}

// Handling is a process's handling of signals.
type Handling struct{ ignored, caught uint64 }

// ReadHandling reads a process's handling of signals. A process that has ended handles none.
func ReadHandling(pid int) Handling {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return Handling{}
	}
	var h Handling
	for line := range bytes.Lines(data) {
		name, mask, _ := bytes.Cut(line, []byte(":"))
		set, _ := strconv.ParseUint(string(bytes.TrimSpace(mask)), 16, 64)
		switch string(name) {
		case "SigIgn":
			h.ignored = set
		case "SigCgt":
			h.caught = set
		}
	}
	return h
}

// Ignores reports whether the process ignores a signal.
func (h Handling) Ignores(signal syscall.Signal) bool { return h.ignored>>(uint(signal)-1)&1 != 0 }

// Catches reports whether the process has a handler for a signal.
func (h Handling) Catches(signal syscall.Signal) bool { return h.caught>>(uint(signal)-1)&1 != 0 }

// Moment is a point in time that tells the processes that are already there
// from those that are started later.
type Moment struct {
	ticks     uint64
	last, max int
}

// highest is the highest number of a process; 0: not known.
var highest = sync.OnceValue(func() int {
	data, err := os.ReadFile("/proc/sys/kernel/pid_max")
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(data)))
	return n
})

// Now is the present moment.
func Now() Moment {
	m := Moment{max: highest()}
	if data, err := os.ReadFile("/proc/loadavg"); err == nil {
		if fields := strings.Fields(string(data)); len(fields) == 5 {
			m.last, _ = strconv.Atoi(fields[4])
		}
	}
	var sinceBoot unix.Timespec // last: a process that is started meanwhile counts as present
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &sinceBoot) == nil {
		m.ticks = uint64(sinceBoot.Nano()) / (1e9 / TicksPerSecond)
	}
	return m
}

// Before reports whether a process was there at the moment. Start times are in
// ticks of 10 ms; within a tick the numbers decide, which the kernel gives out
// in order, beginning again after the highest.
func (m Moment) Before(pid int, s Stat) bool {
	if s.StartTicks != m.ticks || m.max <= 0 {
		return s.StartTicks < m.ticks
	}
	later := ((pid-m.last)%m.max + m.max) % m.max
	return later == 0 || later > m.max/2
}

// Descendants are the numbers of the processes that descend from pid, parents
// before children. A process that ends meanwhile may be missing, with those
// that descended from it: ask again until the answer is stable.
func Descendants(pid int) []int {
	var all []int
	queue := []int{pid}
	for len(queue) > 0 {
		children, err := childrenOf(queue[0])
		if err != nil {
			return scan(pid)
		}
		all = append(all, children...)
		queue = append(queue[1:], children...)
	}
	return all
}

// childrenOf lists the children of all threads of a process. Its only error
// says that the kernel keeps no such lists.
func childrenOf(pid int) ([]int, error) {
	folder := "/proc/" + strconv.Itoa(pid) + "/task"
	tasks, err := os.ReadDir(folder)
	if err != nil {
		return nil, nil //nolint:nilerr // It has ended, and has no children any more.
	}
	var children []int
	for _, task := range tasks {
		data, err := os.ReadFile(folder + "/" + task.Name() + "/children")
		if err != nil {
			if _, statErr := os.Stat(folder + "/" + task.Name() + "/stat"); statErr == nil && errors.Is(err, os.ErrNotExist) {
				return nil, err
			}
			continue
		}
		for _, field := range strings.Fields(string(data)) {
			if n, err := strconv.Atoi(field); err == nil {
				children = append(children, n)
			}
		}
	}
	return children, nil
}

// scan is Descendants for kernels without lists of children.
func scan(pid int) []int {
	children := map[int][]int{}
	for _, n := range All() {
		if s, err := Read(n); err == nil {
			children[s.Parent] = append(children[s.Parent], n)
		}
	}
	var all []int
	queue := []int{pid}
	for len(queue) > 0 {
		all = append(all, children[queue[0]]...)
		queue = append(queue[1:], children[queue[0]]...)
	}
	return all
}

// All are the numbers of all processes that /proc shows.
func All() []int {
	folder, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer func() { _ = folder.Close() }()
	names, _ := folder.Readdirnames(-1)
	var all []int
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil {
			all = append(all, n)
		}
	}
	return all
}
