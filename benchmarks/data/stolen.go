package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// ticks are what /proc/stat counts of all processors together: their time, and how much
// of it somebody here was ready for and the host of this virtual machine gave to others.
type ticks struct{ all, stolen float64 }

// processors reads the counts.
func processors() (ticks, error) {
	content, err := os.ReadFile("/proc/stat")
	if err != nil {
		return ticks{}, fmt.Errorf("asking what the host takes of the processors: %w", err)
	}
	return parseTicks(string(content))
}

// parseTicks reads the first line of /proc/stat (proc_stat(5)): user, nice, system, idle,
// iowait, irq, softirq, steal; guests' times, which follow, are in the first two already.
func parseTicks(stat string) (ticks, error) {
	const counted, steal = 8, 7
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	if len(fields) <= counted || fields[0] != "cpu" {
		return ticks{}, fmt.Errorf("/proc/stat begins with %q, not with the eight times of all processors", line)
	}
	var t ticks
	for i, field := range fields[1 : counted+1] {
		n, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return ticks{}, fmt.Errorf("/proc/stat begins with %q: %w", line, err)
		}
		t.all += n
		if i == steal {
			t.stolen = n
		}
	}
	return t, nil
}

// since is which part of the processors' time was stolen since an earlier reading, 0 to 1.
func (t ticks) since(earlier ticks) float64 {
	return (t.stolen - earlier.stolen) / max(t.all-earlier.all, 1)
}
