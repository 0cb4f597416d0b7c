package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// prefix is what the names of everything begin with that outlives a machine:
// folders and control groups.
const prefix = "muster-cluster-"

// folder is where a cluster keeps everything. Its lock is held by the owner
// and ends with it.
type folder struct {
	path string
	id   string
	lock *os.File
}

// newFolder sweeps away what clusters without an owner left, and makes a
// folder of its own.
func newFolder(ctx context.Context) (*folder, error) {
	base := os.TempDir()
	for _, hidden := range []string{"/var/lib", "/var/log", "/run"} {
		if base == hidden || strings.HasPrefix(base, hidden+"/") {
			return nil, fmt.Errorf("the folder for temporary files is %s, but a node has a %s of its own: set TMPDIR to another", base, hidden)
		}
	}
	// Nobody sweeps while a folder is made and not yet locked.
	gate, err := os.OpenFile(filepath.Join(base, "muster-cluster.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock of all clusters: %w", err)
	}
	defer func() { _ = gate.Close() }()
	if err := unix.Flock(int(gate.Fd()), unix.LOCK_EX); err != nil {
		return nil, fmt.Errorf("locking out other clusters: %w", err)
	}
	if err := sweep(ctx, base); err != nil {
		return nil, err
	}
	path, err := os.MkdirTemp(base, prefix)
	if err != nil {
		return nil, fmt.Errorf("making the cluster's folder: %w", err)
	}
	lock, err := takeLock(path)
	if err != nil {
		return nil, err
	}
	return &folder{path: path, id: filepath.Base(path), lock: lock}, nil
}

func takeLock(path string) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(path, "owner.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the owner's lock: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("taking the owner's lock of %s: %w", path, err)
	}
	return lock, nil
}

func sweep(ctx context.Context, base string) error {
	old, err := filepath.Glob(filepath.Join(base, prefix+"*"))
	if err != nil {
		return fmt.Errorf("looking for earlier clusters: %w", err)
	}
	for _, path := range old {
		lock, err := takeLock(path)
		if err != nil {
			continue // it has an owner, or is just being removed
		}
		left := &folder{path: path, id: filepath.Base(path), lock: lock}
		if err := left.remove(ctx); err != nil {
			return fmt.Errorf("sweeping what an earlier cluster left: %w", err)
		}
	}
	return nil
}

// remember notes the first process of a machine, for the sweep, in case it
// should hang when its owner is gone.
func (f *folder) remember(m *machine) error {
	start, err := startTime(m.pid())
	if err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(f.path, "machines"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("noting the machine %s: %w", m.name, err)
	}
	defer func() { _ = file.Close() }()
	_, err = fmt.Fprintln(file, m.pid(), start)
	return err
}

// remove ends machines that still run, and removes everything of the cluster.
func (f *folder) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	data, err := os.ReadFile(filepath.Join(f.path, "machines"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the machines of %s: %w", f.path, err)
	}
	for line := range strings.Lines(string(data)) {
		var pid int
		var start string
		if _, err := fmt.Sscan(line, &pid, &start); err != nil {
			continue
		}
		if now, err := startTime(pid); err == nil && now == start {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
	if err := removeGroups(ctx, f.id+"-*"); err != nil {
		return err
	}
	if err := os.RemoveAll(f.path); err != nil {
		return fmt.Errorf("removing the cluster's folder: %w", err)
	}
	return f.lock.Close()
}

// startTime tells a process from a later one with the same number.
func startTime(pid int) (string, error) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", fmt.Errorf("reading when process %d started: %w", pid, err)
	}
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	if len(fields) < 20 {
		return "", fmt.Errorf("reading when process %d started: %q", pid, data)
	}
	return fields[19], nil
}

// programs builds what is missing and returns the folder that holds all
// programs.
func programs(ctx context.Context) (string, error) {
	root, err := repository()
	if err != nil {
		return "", err
	}
	command := exec.CommandContext(ctx, filepath.Join(root, "hack", "cluster-deps"))
	var complaints strings.Builder
	command.Stderr = &complaints
	output, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("building the cluster's programs with hack/cluster-deps: %w\n%s", err, complaints.String())
	}
	return strings.TrimSpace(string(output)), nil
}

// repository is the folder of the module that the test belongs to.
func repository() (string, error) {
	at, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("looking for the repository: %w", err)
	}
	for folder := at; folder != "/"; folder = filepath.Dir(folder) {
		if _, err := os.Stat(filepath.Join(folder, "hack", "cluster-deps")); err == nil {
			return folder, nil
		}
	}
	return "", fmt.Errorf("no hack/cluster-deps above %s: run the test in the repository", at)
}

// searchPath is the PATH of programs on a machine.
func searchPath(bin string) string {
	return bin + ":/usr/sbin:/usr/bin:/sbin:/bin"
}

// tail is the end of a log, for a message.
func tail(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}
