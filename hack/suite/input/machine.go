package input

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Machine returns what the machine and the user's environment add to the outcome of a suite.
// ignored are variables that begin with MUSTER_ and change no outcome.
func Machine(ctx context.Context, ignored ...string) (map[string]string, error) {
	kernel, err := kernel()
	if err != nil {
		return nil, err
	}
	found := map[string]string{
		"kernel":                 kernel,
		"Go":                     runtime.Version(),
		"user":                   strconv.Itoa(os.Getuid()),
		"/dev/fuse":              device("/dev/fuse"),
		"control groups":         controlGroups(),
		"variables MUSTER_*":     digest(variables(os.Environ(), ignored)),
		"Debian's packages":      "none",
		"programs of PATH":       digest(strings.Join(programs(os.Getenv("PATH"), started), "\n")),
		"Python packages":        "none",
		"system Python packages": "none",
	}
	for name, command := range map[string][]string{
		"Debian's packages":      {"dpkg-query", "--show", "--showformat", "${Package} ${Version} ${db:Status-Status}\n"},
		"Python packages":        {"python3", "-c", listPackages},
		"system Python packages": {"/usr/bin/python3", "-c", listPackages},
	} {
		out, err := exec.CommandContext(ctx, command[0], command[1:]...).Output()
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			continue // it is not there, which the digest "none" tells
		}
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", name, err)
		}
		found[name] = digest(string(out))
	}
	return found, nil
}

const listPackages = `import importlib.metadata as m, sys
print(sys.version, sys.executable, *sorted(f"{d.name} {d.version}" for d in m.distributions()), sep="\n")`

func kernel() (string, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "", fmt.Errorf("reading the kernel's version: %w", err)
	}
	return unix.ByteSliceToString(name.Release[:]) + " " + unix.ByteSliceToString(name.Version[:]), nil
}

func device(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return "none"
	}
	return info.Mode().String()
}

// controlGroups are the kinds that are mounted, with their options.
func controlGroups() string {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return "none"
	}
	var groups []string
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 3 && strings.HasPrefix(fields[2], "cgroup") {
			groups = append(groups, fields[1]+" "+fields[2]+" "+fields[3])
		}
	}
	slices.Sort(groups)
	return strings.Join(groups, "; ")
}

// started are the programs that tests and the scripts below hack start by name. Programs of
// Debian's packages count by the packages' versions, too; here counts which file a name leads to.
var started = []string{
	"bash", "busybox", "cc", "cp", "curl", "flock", "fusermount", "fusermount3", "gcc", "git", "go", "id", "java", "kubectl", "ldd", "modprobe", "nsenter",
	"nvidia-cuda-mps-control", "nvidia-smi", "openssl", "pip", "pip3", "python", "python3", "sh", "sleep", "ssh", "systemctl", "systemd-analyze", "tar", "unshare", "unzip", "useradd", "userdel", "zig",
}

// programs are the files that a shell finds for these names, each as name, path and size. Two
// values of PATH that lead to the same files are the same.
func programs(path string, names []string) []string {
	var found []string
	for _, name := range names {
		for _, folder := range filepath.SplitList(path) {
			file := filepath.Join(folder, name)
			info, err := os.Stat(file) // of what a link names
			if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
				continue // a shell passes over it, too
			}
			found = append(found, fmt.Sprintf("%q %q %d", name, file, info.Size()))
			break
		}
	}
	return found
}

func variables(environ, ignored []string) string {
	var set []string
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(name, "MUSTER_") && !slices.Contains(ignored, name) {
			set = append(set, variable)
		}
	}
	slices.Sort(set)
	return strings.Join(set, "\n")
}

// digest hides values: a variable may hold a password.
func digest(s string) string {
	sum := sha256.New()
	_, _ = sum.Write([]byte(s))
	return text(sum)
}
