//go:build linux

package environment

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/muster-dev/muster/internal/environment/confinement"
)

// probeTimeout bounds the start of an interpreter: network file systems can
// take their time.
const probeTimeout = 30 * time.Second

// interpreter is a Python as it describes itself.
type interpreter struct {
	// Executable is its real path, behind version managers' shims.
	Executable string `json:"executable"`
	// Version is the full version: "3.11.7".
	Version string `json:"version"`
	// Implementation is "cpython", "pypy", with its ABI.
	Implementation string `json:"implementation"`
	// Platform is the platform tag: "linux-x86_64".
	Platform string `json:"platform"`
	// Prefix is where it is installed.
	Prefix string `json:"prefix"`
	// Bases are the folders of the Python that a virtual environment was made from;
	// otherwise the same as Prefix.
	Bases []string `json:"bases"`
}

// describe is the program by which an interpreter describes itself.
const describe = `import sys, sysconfig, platform, json
print(json.dumps({
  "executable": sys.executable, "version": platform.python_version(),
  "implementation": sys.implementation.name + " " + str(sysconfig.get_config_var("SOABI") or ""),
  "platform": sysconfig.get_platform(), "prefix": sys.prefix,
  "bases": [sys.base_prefix, sys.base_exec_prefix]}))`

// places are the folders that the interpreter needs.
func (p interpreter) places() []string {
	out := append([]string{p.Prefix}, p.Bases...)
	if real, err := filepath.EvalSymlinks(p.Executable); err == nil {
		out = append(out, filepath.Dir(real))
	}
	return unique(out)
}

// probe starts an interpreter of the machine, which describes itself.
func probe(ctx context.Context, python string) (interpreter, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, "-I", "-c", describe)
	cmd.Env = pythonEnviron(os.Environ())
	cmd.WaitDelay = time.Second
	out, stderr := &firstBytes{left: maxSaid}, &firstBytes{left: maxSaid}
	cmd.Stdout, cmd.Stderr = out, stderr
	err := cmd.Run()
	if ctx.Err() != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return interpreter{}, fmt.Errorf("starting %s: no answer within %s", python, probeTimeout)
	}
	if err != nil {
		return interpreter{}, fmt.Errorf("starting %s: %w: %s", python, err, brief(lastLines(stderr.kept.String(), 3)))
	}
	return described(python, out.kept.Bytes())
}

// firstBytes is a writer that keeps only the first bytes.
type firstBytes struct {
	kept bytes.Buffer // not embedded: its ReadFrom has no bound
	left int
}

// Write implements io.Writer. It never fails, so that the program can go on writing.
func (f *firstBytes) Write(p []byte) (int, error) {
	keep := p[:min(len(p), f.left)]
	f.left -= len(keep)
	_, _ = f.kept.Write(keep) // a bytes.Buffer returns no error
	return len(p), nil
}

// probeAsJob is probe for an interpreter that a job brings along.
func probeAsJob(ctx context.Context, place *confinement.Confinement, user *confinement.User, python string) (interpreter, error) {
	said, err := askAsJob(ctx, place, user, bounds{probeTimeout, maxSaid}, python, "-I", "-c", describe)
	if err != nil {
		return interpreter{}, fmt.Errorf("starting %s: %w: %s", python, err, brief(lastLines(said, 3)))
	}
	return described(python, []byte(lastLines(said, 1)))
}

// Ask runs a program that a job brings along, with the files, the user and the variables of the
// job's members, and returns its output. The job is one of the namespace. Ask ends the program with an error after two minutes, or after
// 1 MiB of output.
func (b *Builder) Ask(ctx context.Context, namespace string, argv ...string) (string, error) {
	user, err := b.owner(ctx, namespace)
	if err != nil {
		return "", fmt.Errorf("finding the user of namespace %s: %w", namespace, err)
	}
	return askAsJob(ctx, b.opts.Place, user, bounds{askTimeout, maxTold}, argv...)
}

// bounds are the longest time of a program that a job brings along, and of its output in bytes.
type bounds struct {
	time time.Duration
	said int
}

func askAsJob(ctx context.Context, place *confinement.Confinement, user *confinement.User, most bounds, argv ...string) (string, error) {
	if place == nil {
		return "", errNoPlace
	}
	bounded, cancel := context.WithTimeoutCause(ctx, most.time, fmt.Errorf("no answer within %s", most.time))
	defer cancel()
	bounded, stop := context.WithCancelCause(bounded)
	defer stop(nil)
	var said strings.Builder
	err := place.Run(bounded, confinement.Program{Argv: argv, Env: memberEnviron(os.LookupEnv, user), AsJob: true, User: user}, func(line string) {
		if said.Len()+len(line) >= most.said {
			stop(fmt.Errorf("it printed more than %d bytes instead of an answer", most.said))
			return
		}
		said.WriteString(line + "\n")
	})
	if bounded.Err() != nil && ctx.Err() == nil {
		err = context.Cause(bounded)
	}
	return said.String(), err
}

// memberEnviron returns the variables of programs that a job brings along: the same variables that
// its members get. It leaves out the settings of installers, which may hold passwords.
func memberEnviron(get func(string) (string, bool), user *confinement.User) []string {
	var out []string
	for _, name := range []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH"} {
		if user != nil && slices.Contains([]string{"HOME", "USER", "LOGNAME", "SHELL"}, name) {
			continue // they are root's
		}
		if value, ok := get(name); ok {
			out = append(out, name+"="+value)
		}
	}
	return append(out, "PYTHONNOUSERSITE=1", "PYTHONUNBUFFERED=1")
}

const (
	// askTimeout bounds the programs of [Builder.Ask].
	askTimeout = 2 * time.Minute
	// maxSaid bounds the output of a program that describes itself, in bytes.
	maxSaid = 64 << 10
	// maxTold bounds the output of programs of [Builder.Ask], in bytes: the packages of an environment are
	// some hundred KiB at most.
	maxTold = 1 << 20
	// maxAnswer bounds each part of the description of an interpreter, in bytes.
	maxAnswer = 4096
)

// described reads how an interpreter describes itself. The interpreter may be any program of a
// user, and parts of the answer become the status of an object.
func described(python string, out []byte) (interpreter, error) {
	var found interpreter
	if err := json.Unmarshal(out, &found); err != nil || !versions.MatchString(found.Version) {
		return interpreter{}, fmt.Errorf("starting %s: it does not answer like a Python", python)
	}
	for _, text := range append([]string{found.Executable, found.Implementation, found.Platform, found.Prefix}, found.Bases...) {
		if len(text) > maxAnswer || len(found.Bases) > 2 {
			return interpreter{}, fmt.Errorf("starting %s: its answer is longer than that of a Python", python)
		}
	}
	if found.Executable == "" {
		found.Executable = python
	}
	return found, nil
}

// versions matches the version of a Python: 3.11.7, 3.15.0a1, 3.13.0+.
var versions = regexp.MustCompile(`^[0-9]{1,4}(\.[0-9]{1,4}){0,3}[0-9A-Za-z.+_-]{0,32}$`)

// find looks for an interpreter of the wanted version ("", "3", "3.11") in the
// folders of a search path.
func find(ctx context.Context, wanted, searchPath string) (interpreter, error) {
	if wanted == "" {
		wanted = "3"
	}
	names := []string{"python" + wanted, "python3", "python"}
	var seen []string
	for _, name := range names {
		for _, dir := range filepath.SplitList(searchPath) {
			path := filepath.Join(dir, name)
			if !filepath.IsAbs(path) || !executable(path) {
				continue
			}
			found, err := probe(ctx, path)
			if ctx.Err() != nil {
				return interpreter{}, ctx.Err()
			}
			if err != nil {
				continue // a version manager's shim of a version that is not there
			}
			if found.Version == wanted || strings.HasPrefix(found.Version, wanted+".") {
				return found, nil
			}
			seen = append(seen, found.Version)
		}
	}
	if len(seen) == 0 {
		return interpreter{}, fmt.Errorf("there is no Python %s on this machine (looked for %s in %s); install it, for example with: apt install python3 python3-venv", wanted, strings.Join(unique(names), " and "), searchPath)
	}
	return interpreter{}, fmt.Errorf("there is no Python %s on this machine, only %s; install it, or ask for one that is there", wanted, strings.Join(unique(seen), " and "))
}

// key names the environment of these requirements, this interpreter and the other inputs that
// count.
func (p interpreter) key(requirements string, contents ...string) string {
	words := append([]string{"environment/1", p.Version, p.Implementation, p.Platform, requirements}, contents...)
	sum := sha256.Sum256([]byte(strings.Join(words, "\x00")))
	return hex.EncodeToString(sum[:])
}

// existingKey names an environment that Muster did not make.
func (p interpreter) existingKey(path string) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{"existing/1", p.Version, p.Implementation, p.Platform, path}, "\x00")))
	return "path-" + hex.EncodeToString(sum[:16])
}

// existing examines an environment that Muster did not make. The user who named the environment
// chose its Python, so the Python runs with the rights of that user's job.
func existing(ctx context.Context, place *confinement.Confinement, path string, user *confinement.User) (interpreter, error) {
	if user != nil {
		return existingOf(ctx, place, path, user)
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return interpreter{}, fmt.Errorf("looking at the environment: %w; give the folder of a virtual or conda environment", err)
	case !info.IsDir():
		return interpreter{}, fmt.Errorf("looking at the environment: %s is a file; give the folder of a virtual or conda environment, the one that holds bin/python", path)
	}
	python := filepath.Join(path, "bin", "python")
	if !executable(python) {
		return interpreter{}, fmt.Errorf("looking at the environment: %s holds no bin/python; give the folder of a virtual or conda environment", path)
	}
	found, err := probeAsJob(ctx, place, nil, python)
	if err != nil {
		return interpreter{}, fmt.Errorf("looking at the environment %s: %w", path, err)
	}
	if !strings.HasPrefix(found.Version, "3.") {
		return interpreter{}, fmt.Errorf("looking at the environment %s: it holds Python %s, and Python 3 is needed", path, found.Version)
	}
	return found, nil
}

// existingOf is existing for a user of the machine: the user's own rights decide, and root looks at nothing.
func existingOf(ctx context.Context, place *confinement.Confinement, path string, user *confinement.User) (interpreter, error) {
	found, err := probeAsJob(ctx, place, user, filepath.Join(path, "bin", "python"))
	switch {
	case err != nil:
		return interpreter{}, fmt.Errorf("looking at the environment %s as user %d: %w; give the folder of a virtual or conda environment that this user may read", path, user.UID, err)
	case !strings.HasPrefix(found.Version, "3."):
		return interpreter{}, fmt.Errorf("looking at the environment %s: it holds Python %s, and Python 3 is needed", path, found.Version)
	}
	return found, nil
}

// pythonEnviron leaves out what would make one Python load another's modules.
func pythonEnviron(environ []string) []string {
	out := make([]string, 0, len(environ)+2)
	for _, v := range environ {
		name, _, _ := strings.Cut(v, "=")
		switch name {
		case "PYTHONHOME", "PYTHONPATH", "PYTHONSTARTUP", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__", "PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_REQUIRE_VIRTUALENV":
			continue
		}
		out = append(out, v)
	}
	return append(out, "PYTHONNOUSERSITE=1", "PYTHONUNBUFFERED=1")
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

func unique(in []string) []string {
	var out []string
	seen := map[string]bool{}
	for _, s := range in {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
