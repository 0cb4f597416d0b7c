package execution

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/shim/contract"
)

// Program is what is executed.
type Program struct {
	// Argv is the command and its arguments.
	Argv []string `json:"argv"`
	// Env is the whole environment.
	Env []string `json:"env,omitempty"`
	// Dir is the working directory.
	Dir string `json:"dir"`
}

// CheckDir returns why a folder cannot be the working directory, or nil.
func CheckDir(dir string) *Fault {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fault(contract.ReasonDirectory, "the working directory %s does not exist", dir)
	case err != nil:
		return fault(contract.ReasonDirectory, "the working directory %s cannot be used: %v", dir, err)
	case !info.IsDir():
		return fault(contract.ReasonDirectory, "the working directory %s is no directory", dir)
	}
	return nil
}

// LookUp finds the program's file as a shell does: in PATH, or relative to the working directory
// where it has a slash.
func (p Program) LookUp() (string, *Fault) {
	if len(p.Argv) == 0 || p.Argv[0] == "" {
		return "", fault(contract.ReasonNotFound, "no command was given")
	}
	name := p.Argv[0]
	if strings.Contains(name, "/") {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(p.Dir, path)
		}
		return path, checkFile(name, path)
	}
	list := os.Getenv("PATH")
	for _, e := range slices.Backward(p.Env) {
		if value, ok := strings.CutPrefix(e, "PATH="); ok {
			list = value
			break
		}
	}
	var firstErr *Fault
	for _, folder := range filepath.SplitList(list) {
		if !filepath.IsAbs(folder) {
			folder = filepath.Join(p.Dir, folder)
		}
		path := filepath.Join(folder, name)
		if _, err := os.Stat(path); err != nil {
			continue // nor is it there for who may not look into the folder
		}
		err := checkFile(name, path)
		if err == nil && unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS) != nil {
			err = p.Explain(syscall.EACCES, path)
		}
		if err == nil {
			return path, nil
		}
		if firstErr == nil {
			firstErr = err
		}
	}
	if firstErr != nil {
		return "", firstErr
	}
	return "", fault(contract.ReasonNotFound, "command not found: %q is in none of the folders of PATH; is it installed in this environment?", name)
}

func checkFile(name, path string) *Fault {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return fault(contract.ReasonNotFound, "command not found: %s does not exist", path)
	case err != nil:
		return fault(contract.ReasonNotExecutable, "%s cannot be executed: %v", path, err)
	case info.IsDir():
		return fault(contract.ReasonNotExecutable, "%s cannot be executed: it is a directory", path)
	case info.Mode()&0o111 == 0:
		return fault(contract.ReasonNotExecutable, "%s cannot be executed: it is not marked executable (mode %s); run chmod +x on it, or name its interpreter (python %s)", path, info.Mode().Perm(), name)
	}
	return nil
}

// Explain tells what the kernel's refusal to execute the file at path means.
func (p Program) Explain(err error, path string) *Fault {
	switch {
	case errors.Is(err, syscall.ENOENT):
		return fault(contract.ReasonNotFound, "%s cannot be executed: its interpreter does not exist%s", path, interpreter(path))
	case errors.Is(err, syscall.ENOEXEC):
		return fault(contract.ReasonNotExecutable, "%s cannot be executed: exec format error: it is neither a program for this machine nor a script that begins with #!", path)
	case errors.Is(err, syscall.E2BIG):
		return fault(contract.ReasonNotExecutable, "%s cannot be executed: its arguments and environment are too long", path)
	case errors.Is(err, syscall.EACCES):
		return fault(contract.ReasonNotExecutable, "%s cannot be executed in %s: permission denied, by the file, a folder above it or its file system", path, p.Dir)
	}
	return fault(contract.ReasonNotExecutable, "%s cannot be executed: %v", path, err)
}

// interpreter quotes the first line of a script, for people.
func interpreter(path string) string {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a program may have put a pipe there meanwhile
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	buf := make([]byte, 128)
	n, _ := f.Read(buf)
	line, _, _ := strings.Cut(string(buf[:n]), "\n")
	if !strings.HasPrefix(line, "#!") {
		return ""
	}
	return " (" + strings.TrimRight(line, "\r") + ")"
}
