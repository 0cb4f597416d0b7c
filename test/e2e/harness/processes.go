package harness

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

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

// own returns the processes of Muster itself, not of its containers: every
// process that runs bin/muster with this home.
func (m *Muster) own() []int {
	commands, _ := filepath.Glob("/proc/[0-9]*/exe")
	var pids []int
	for _, link := range commands {
		exe, err := os.Readlink(link)
		if err != nil || strings.TrimSuffix(exe, " (deleted)") != Binary() {
			continue
		}
		dir := filepath.Dir(link)
		for _, variable := range variables(dir + "/environ") {
			if variable == "MUSTER_HOME="+m.Home {
				pid, _ := strconv.Atoi(filepath.Base(dir))
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// Kill9 kills every process of Muster itself, the control plane's included, and
// waits until they are gone. What is training goes on.
func (m *Muster) Kill9(t testing.TB) {
	t.Helper()
	pids := m.own()
	if len(pids) == 0 {
		t.Fatal("no muster process was found to kill")
	}
	for _, pid := range pids {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	Eventually(t, 20*time.Second, "waiting until muster is gone", func() error {
		if left := m.own(); len(left) > 0 {
			return fmt.Errorf("still there: %v", left)
		}
		return nil
	})
}

// Abandon kills every process of Muster and of its containers: for a Muster
// that could not be stopped in order, so that it is not left on the machine.
func (m *Muster) Abandon() {
	for _, pid := range m.own() {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	for _, p := range Processes(m.Home) {
		_ = p.Kill()
	}
}

// ResidentMB is the resident memory of Muster's own processes, shims left out,
// in MB (10^6 bytes). They run one binary, whose pages are in memory once: the
// private memory of all of them and the mapped files of the largest are added.
func (m *Muster) ResidentMB() float64 {
	var private, files float64
	for _, pid := range m.own() {
		own := resident(pid)
		private += own["RssAnon"] + own["RssShmem"]
		files = max(files, own["RssFile"])
	}
	return (private + files) * 1024 / 1e6
}

// resident returns the kinds of resident memory of a process, in KiB.
func resident(pid int) map[string]float64 {
	sizes := map[string]float64{}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return sizes // it has ended
	}
	for line := range strings.Lines(string(data)) {
		if name, rest, ok := strings.Cut(line, ":"); ok && strings.HasPrefix(name, "Rss") {
			sizes[name], _ = strconv.ParseFloat(strings.Fields(rest)[0], 64)
		}
	}
	return sizes
}
