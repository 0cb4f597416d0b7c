package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/muster-dev/muster/internal/node/shim/lineage"
)

// Usage is what a tree uses.
type Usage struct {
	// CPUSeconds is the CPU time used so far, by ended processes too.
	CPUSeconds float64
	// RSSBytes is the resident memory in use. Memory that processes share
	// counts for each of them.
	RSSBytes int64
	// Processes is the number of live processes.
	Processes int
}

// Usage is what the live tree uses, and has used. ErrEnded: there is none.
func (p *Process) Usage() (Usage, error) {
	shim, err := lineage.Read(p.identity.PID)
	if err != nil || !p.isShim(shim) {
		return Usage{}, fmt.Errorf("measuring container %s: %w", p.spec.ID, ErrEnded)
	}
	ticks := shim.ReapedTicks
	var u Usage
	for _, pid := range lineage.Descendants(p.identity.PID) {
		stat, err := lineage.Read(pid)
		if err != nil {
			continue // ended meanwhile
		}
		ticks += stat.CPUTicks + stat.ReapedTicks
		if stat.State != 'Z' {
			u.RSSBytes += stat.RSSPages * int64(os.Getpagesize())
			u.Processes++
		}
	}
	u.CPUSeconds = float64(ticks) / lineage.TicksPerSecond
	return u, nil
}

// PIDs are the numbers, on the host, of the tree's live processes.
func (p *Process) PIDs() []int {
	shim, err := lineage.Read(p.identity.PID)
	if err != nil || !p.isShim(shim) {
		return nil
	}
	return lineage.Descendants(p.identity.PID)
}

// hostPID is the number on the host of the shim's child that bears the number
// pid in its own namespace. 0: it has ended.
func hostPID(shim, pid int, isolated bool) int {
	if !isolated || pid == 0 {
		return pid
	}
	for _, n := range lineage.Descendants(shim) {
		data, err := os.ReadFile("/proc/" + strconv.Itoa(n) + "/status")
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(data)) {
			numbers, ok := strings.CutPrefix(line, "NSpid:")
			if !ok {
				continue
			}
			// From the namespace of who asks to the innermost one.
			fields := strings.Fields(numbers)
			if len(fields) == 2 && fields[1] == strconv.Itoa(pid) {
				return n
			}
		}
	}
	return 0
}
