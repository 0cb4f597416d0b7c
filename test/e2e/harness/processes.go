package harness

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Process is a process seen in /proc.
type Process struct {
	PID     int
	Parent  int
	Command string
	// Container is the ID of the container that it belongs to, from its
	// environment; empty for a shim.
	Container string
	Shim      bool
}

// String is the process in one line.
func (p Process) String() string {
	return fmt.Sprintf("pid %d (parent %d) %s %s", p.PID, p.Parent, p.Container, p.Command)
}

// Kill sends SIGKILL.
func (p Process) Kill() error { return unix.Kill(p.PID, unix.SIGKILL) }

// Processes returns the shims and the containers' processes of the Muster whose
// data folder is home, as /proc has them.
func Processes(home string) []Process {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	var found []Process
	for _, stat := range stats {
		dir := filepath.Dir(stat)
		pid, _ := strconv.Atoi(filepath.Base(dir))
		data, err := os.ReadFile(stat)
		if err != nil {
			continue // it has ended
		}
		fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
		if fields[0][0] == 'Z' {
			continue
		}
		parent, _ := strconv.Atoi(string(fields[1]))
		command := variables(dir + "/cmdline")
		p := Process{PID: pid, Parent: parent, Command: strings.Join(command, " ")}
		if exe, err := os.Readlink(dir + "/exe"); err == nil && strings.HasPrefix(exe, filepath.Join(home, "bin")) {
			p.Shim = true
			found = append(found, p)
			continue
		}
		if id := containerOf(dir, home); id != "" {
			p.Container = id
			found = append(found, p)
		}
	}
	return found
}

// containerOf returns the container's ID from a process's environment if its
// folder is below home.
func containerOf(proc, home string) string {
	for _, variable := range variables(proc + "/environ") {
		if id, ok := strings.CutPrefix(variable, "MUSTER_CONTAINER_ID="); ok {
			uid, _, _ := strings.Cut(id, "/")
			if _, err := os.Stat(filepath.Join(home, "pods", uid)); err == nil {
				return id
			}
		}
	}
	return ""
}

func variables(path string) []string {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimRight(string(data), "\x00"), "\x00")
}
