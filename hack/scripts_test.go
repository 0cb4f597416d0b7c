// Package hack tests the scripts in this folder that decide what is built again and which
// results of tests are believed.
package hack

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/hack/suite/input"
)

// nobody is a user without rights, for what root alone is not refused.
const nobody = 65534

func run(t *testing.T, dir string, environ []string, command ...string) (string, string, error) {
	t.Helper()
	return finish(exec.CommandContext(t.Context(), command[0], command[1:]...), dir, environ)
}

func finish(cmd *exec.Cmd, dir string, environ []string) (string, string, error) {
	var out, said bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &said
	cmd.Env = append(os.Environ(), "MUSTER_TEST_CACHE=", "MUSTER_TEST_MTIMES=", "GIT_CONFIG_GLOBAL=/dev/null")
	cmd.Env = append(cmd.Env, environ...)
	err := cmd.Run()
	return strings.TrimSpace(out.String()), said.String(), err
}

func write(t *testing.T, path, text string, mode fs.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// clone makes a repository with these scripts and some files, at a path of its own that every
// user can reach.
func clone(t *testing.T) string {
	t.Helper()
	parent := open(t)
	dir := filepath.Join(parent, "clone")
	for _, script := range []string{"cache", "mtimes", "at-one-path"} {
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "hack", script), string(text), 0o755)
	}
	write(t, filepath.Join(dir, "a/one.txt"), "1", 0o644)
	write(t, filepath.Join(dir, "a/two.txt"), "2", 0o644)
	write(t, filepath.Join(dir, ".gitignore"), "/bin/\n.cache/\n", 0o644)
	write(t, filepath.Join(dir, "bin/program"), "built", 0o755)
	if err := os.Symlink("one.txt", filepath.Join(dir, "a/link")); err != nil {
		t.Fatal(err)
	}
	if _, said, err := run(t, dir, nil, "git", "init", "-q"); err != nil {
		t.Fatalf("git init: %v\n%s", err, said)
	}
	return dir
}

// open is a temporary folder that every user can reach.
func open(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// times are the modification times of a clone's files and folders.
func times(t *testing.T, dir string) map[string]time.Time {
	t.Helper()
	if _, said, err := run(t, dir, nil, "hack/mtimes"); err != nil {
		t.Fatalf("mtimes: %v\n%s", err, said)
	}
	found := map[string]time.Time{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.Name() == ".git" {
			return fs.SkipDir
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		found[name] = info.ModTime()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestMtimes: files of equal content have equal times in every clone, those of other content
// do not, and all are in the past.
func TestMtimes(t *testing.T) {
	first, second := clone(t), clone(t)
	before := times(t, first)
	if diff := cmp.Diff(before, times(t, second)); diff != "" {
		t.Errorf("two clones differ:\n%s", diff)
	}
	for name, at := range before {
		if at.Year() < 2000 || at.Year() > 2020 {
			t.Errorf("%s is of %s", name, at)
		}
	}
	write(t, filepath.Join(first, "a/one.txt"), "3", 0o644)
	write(t, filepath.Join(first, "bin/program"), "built again", 0o755)
	write(t, filepath.Join(first, "hack/more"), "", 0o644)
	after := times(t, first)
	for _, name := range []string{"a/one.txt", "bin/program", "hack"} {
		if after[name].Equal(before[name]) {
			t.Errorf("%s has changed, its time has not", name)
		}
		before[name] = after[name]
	}
	before["hack/more"] = after["hack/more"]
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("more than what changed has another time:\n%s", diff)
	}
}

func TestCache(t *testing.T) {
	dir := clone(t)
	parent := t.TempDir()
	folder := func(name string, mode fs.FileMode) string {
		path := filepath.Join(parent, name, "muster")
		if err := errors.Join(os.MkdirAll(path, 0o755), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		return filepath.Dir(path)
	}
	layout := folder("layout", 0o755)
	write(t, filepath.Join(layout, "muster/layout"), "99\n", 0o644)
	write(t, filepath.Join(parent, "file"), "", 0o644)
	tests := map[string]struct{ base, says string }{
		"a new folder":        {filepath.Join(parent, "new"), ""},
		"the same again":      {filepath.Join(parent, "new"), ""},
		"all may write to it": {folder("all", 0o777), "chmod go-w"},
		"another version":     {layout, "layout 99 of another version"},
		"a file in its place": {filepath.Join(parent, "file"), "it cannot be made"},
		"a relative path":     {"caches", "not an absolute path"},
		"a link to a folder":  {filepath.Join(parent, "linked"), ""},
	}
	write(t, filepath.Join(parent, "linked/notes"), "", 0o644)
	if err := os.Symlink(filepath.Join(folder("target", 0o755), "muster"), filepath.Join(parent, "linked/muster")); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		other := folder("other", 0o755)
		if err := os.Chown(filepath.Join(other, "muster"), nobody, -1); err != nil {
			t.Fatal(err)
		}
		tests["another user"] = struct{ base, says string }{other, "it belongs to user"}
	}
	for name, test := range tests {
		want := test.base + "/muster"
		if test.says != "" {
			want = dir + "/.cache"
		}
		got, said, err := run(t, dir, []string{"XDG_CACHE_HOME=" + test.base}, "hack/cache")
		if err != nil || got != want || test.says == "" && said != "" || !strings.Contains(said, test.says) {
			t.Errorf("%s: %s, %v, want %s and %q:\n%s", name, got, err, want, test.says, said)
		}
	}
	// What a run has decided is not decided again, whatever has become of the folder.
	all := filepath.Join(folder("decided", 0o777), "muster")
	got, said, err := run(t, dir, []string{"MUSTER_TEST_CACHE=" + all, "MUSTER_TEST_CACHE_CHOSEN=" + all}, "hack/cache")
	if err != nil || got != all || said != "" {
		t.Errorf("decided before: %s, %v:\n%s", got, err, said)
	}
}

// TestCacheOnAFullDisk mounts one of a few MiB, which root alone may.
func TestCacheOnAFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Log("not tried: only root mounts a disk")
		return
	}
	dir, small := clone(t), t.TempDir()
	script := fmt.Sprintf("mount -t tmpfs -o size=16m none %s && XDG_CACHE_HOME=%[1]s exec hack/cache", small)
	got, said, err := run(t, dir, nil, "unshare", "--mount", "sh", "-c", script)
	if err != nil || got != dir+"/.cache" || !strings.Contains(said, "MiB free, and 4096 MiB are needed") {
		t.Errorf("%s, %v:\n%s", got, err, said)
	}
}

// asNobody makes a command run as a user without rights.
func asNobody(cmd *exec.Cmd) *exec.Cmd {
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	return cmd
}

// give gives a folder to that user.
func give(t *testing.T, dir string) {
	t.Helper()
	if os.Getuid() != 0 {
		return
	}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, nobody, nobody))
	})
	if err != nil {
		t.Fatal(err)
	}
}

const look = `pwd; cat a/one.txt; git rev-parse --show-toplevel; stat -c %Y a/one.txt; exit 7`

// TestAtOnePath: two clones are at the same path, for root and for others, at the same time as
// well, and the exit code is the command's.
func TestAtOnePath(t *testing.T) {
	for name, as := range map[string]func(*exec.Cmd) *exec.Cmd{
		"this user": func(cmd *exec.Cmd) *exec.Cmd { return cmd }, "a user without rights": asNobody,
	} {
		t.Run(name, func(t *testing.T) {
			base := open(t)
			give := func(dir string) {
				if name != "this user" {
					give(t, dir)
				}
			}
			give(base)
			var seen []string
			for _, content := range []string{"first", "other"} {
				dir := clone(t)
				write(t, filepath.Join(dir, "a/one.txt"), content+"\n", 0o644)
				give(dir)
				out, said, err := finish(as(exec.CommandContext(t.Context(), "hack/at-one-path", "bash", "-c", look)), dir, []string{"XDG_CACHE_HOME=" + base})
				var exit *exec.ExitError
				if !errors.As(err, &exit) || exit.ExitCode() != 7 || said != "" {
					t.Fatalf("%v, want exit code 7:\n%s%s", err, out, said)
				}
				lines := strings.Split(out, "\n")
				if len(lines) != 4 || lines[1] != content || lines[2] != lines[0] || len(lines[3]) > 10 || lines[3] >= "1600000000" {
					t.Fatalf("the clone with %s shows %q", content, lines)
				}
				seen = append(seen, lines[0])
			}
			if seen[0] != seen[1] || seen[0] != base+"/muster/tree" {
				t.Errorf("the clones were at %q", seen)
			}
		})
	}
}

// TestAtOnePathElsewhere: where the one path cannot be had, the command runs in the clone, and
// the reason is told.
func TestAtOnePathElsewhere(t *testing.T) {
	base, dir := open(t), clone(t)
	give(t, dir)
	give(t, base)
	here := func(name, says string, environ ...string) {
		t.Helper()
		cmd := asNobody(exec.CommandContext(t.Context(), "hack/at-one-path", "pwd"))
		out, said, err := finish(cmd, dir, append([]string{"XDG_CACHE_HOME=" + base}, environ...))
		if err != nil || out != dir || !strings.Contains(said, says) {
			t.Errorf("%s: in %s, %v, want %q:\n%s", name, out, err, says, said)
		}
	}
	here("no shared cache", "no cache folder that clones share", "XDG_CACHE_HOME=relative")

	// A run that holds the lock: it tells that it works, and ends with its input.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	holder := asNobody(exec.CommandContext(ctx, "hack/at-one-path", "sh", "-c", "echo works; read line"))
	input, output := begin(t, holder, dir, base)
	if !output.Scan() || output.Text() != "works" {
		t.Fatalf("the run that holds the lock shows %q", output.Text())
	}
	here("another run", "another run works at "+base+"/muster/tree")
	// A run that is killed holds it no longer.
	if err := errors.Join(holder.Process.Kill(), input.Close()); err != nil {
		t.Fatal(err)
	}
	_ = holder.Wait()
	for { // what the killed run had started ends with its input, in a moment
		cmd := asNobody(exec.CommandContext(t.Context(), "hack/at-one-path", "pwd"))
		out, said, err := finish(cmd, dir, []string{"XDG_CACHE_HOME=" + base})
		if err != nil {
			t.Fatalf("after a run was killed: %v\n%s", err, said)
		}
		if out == base+"/muster/tree" {
			break
		}
		if !strings.Contains(said, "processes of an earlier run work at") {
			t.Fatalf("after a run was killed: in %s\n%s", out, said)
		}
	}
	// What it left and does not end keeps the path.
	left := asNobody(exec.CommandContext(t.Context(), "cat"))
	end, _ := begin(t, left, base+"/muster/tree", base)
	here("a process of an earlier run", "processes of an earlier run work at "+base+"/muster/tree")
	if err := errors.Join(end.Close(), left.Wait()); err != nil {
		t.Error(err)
	}
}

// begin starts a command in a folder, with a cache below base, and returns its input and the lines of
// its output.
func begin(t *testing.T, cmd *exec.Cmd, dir, base string) (io.Closer, *bufio.Scanner) {
	t.Helper()
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "MUSTER_TEST_CACHE=", "XDG_CACHE_HOME="+base)
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return input, bufio.NewScanner(output)
}

// TestAtOnePathOfRoot: two runs of root do not meet, and where the path cannot be had the reason is
// told.
func TestAtOnePathOfRoot(t *testing.T) {
	if os.Getuid() != 0 {
		t.Log("not tried: only root mounts")
		return
	}
	base, dir := open(t), clone(t)
	write(t, filepath.Join(dir, "a/one.txt"), "first", 0o644)
	holder := exec.CommandContext(t.Context(), "hack/at-one-path", "sh", "-c", "pwd; cat a/one.txt; echo; read line; cat a/one.txt")
	input, lines := begin(t, holder, dir, base)
	for _, want := range []string{base + "/muster/tree", "first"} {
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("the first run shows %q, want %q", lines.Text(), want)
		}
	}
	second := clone(t)
	out, said, err := run(t, second, []string{"XDG_CACHE_HOME=" + base}, "hack/at-one-path", "sh", "-c", "pwd; cat a/one.txt")
	if err != nil || said != "" || out != base+"/muster/tree\n1" {
		t.Errorf("a second run: %q, %v\n%s", out, err, said)
	}
	if err := input.Close(); err != nil {
		t.Fatal(err)
	}
	if !lines.Scan() || lines.Text() != "first" {
		t.Errorf("the first run shows %q after the second", lines.Text())
	}
	if err := holder.Wait(); err != nil {
		t.Error(err)
	}

	programs := t.TempDir()
	path := "PATH=" + programs + ":" + os.Getenv("PATH")
	write(t, filepath.Join(programs, "mount"), "#!/bin/sh\nexit 1\n", 0o755)
	out, said, err = run(t, dir, []string{"XDG_CACHE_HOME=" + base, path}, "hack/at-one-path", "pwd")
	if err != nil || out != dir || !strings.Contains(said, "no bind mount at") {
		t.Errorf("without a bind mount: in %s, %v\n%s", out, err, said)
	}
	// Without namespaces it works on a copy, for which a small disk has no room.
	small := t.TempDir()
	write(t, filepath.Join(programs, "mount"), "#!/bin/sh\nexec "+program(t, "mount")+" \"$@\"\n", 0o755)
	write(t, filepath.Join(programs, "unshare"), "#!/bin/sh\nexit 1\n", 0o755)
	write(t, filepath.Join(dir, "large"), strings.Repeat("x", 2<<20), 0o644)
	script := fmt.Sprintf("%s -t tmpfs -o size=1m none %s && MUSTER_TEST_CACHE=%[2]s MUSTER_TEST_CACHE_CHOSEN=%[2]s exec hack/at-one-path pwd", program(t, "mount"), small)
	out, said, err = run(t, dir, []string{path}, program(t, "unshare"), "--mount", "sh", "-c", script)
	if err != nil || out != dir || !strings.Contains(said, "cannot be copied to") {
		t.Errorf("on a small disk: in %s, %v\n%s", out, err, said)
	}
}

// program is where a program of this machine is.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestWithoutNamespaces: root without mount namespaces works on a copy, as others do.
func TestWithoutNamespaces(t *testing.T) {
	base, dir, programs := open(t), clone(t), t.TempDir()
	write(t, filepath.Join(programs, "unshare"), "#!/bin/sh\nexit 1\n", 0o755)
	out, said, err := run(t, dir, []string{"XDG_CACHE_HOME=" + base, "PATH=" + programs + ":" + os.Getenv("PATH")}, "hack/at-one-path", "sh", "-c", "pwd; echo more >made")
	if err != nil || out != base+"/muster/tree" || os.Getuid() == 0 && !strings.Contains(said, "no mount namespaces") {
		t.Errorf("in %s, %v\n%s", out, err, said)
	}
	if _, err := os.Stat(filepath.Join(dir, "made")); err == nil {
		t.Error("the clone itself was written to, not a copy")
	}
}

// TestAnEditReachesTheBinary: a source that is older than the program made of it is compiled.
func TestAnEditReachesTheBinary(t *testing.T) {
	dir, cache := t.TempDir(), t.TempDir()
	tracked, err := input.Tracked(t.Context(), "..")
	if err != nil {
		t.Fatal(err)
	}
	// A child process reads what the programs are made of and by.
	if err := input.Observe("..", input.Below(tracked, "Makefile", "hack", "cmd/muster-shim", "cmd/muster-worker", "internal/node/shim", "go.mod", "go.sum")); err != nil {
		t.Fatal(err)
	}
	out, said, err := run(t, "..", nil, "sh", "-c", "git ls-files -z --cached --others --exclude-standard | xargs -0 -r ls -d 2>/dev/null | tar -cT - | tar -xC "+dir)
	if err != nil {
		t.Fatalf("copying the repository: %v\n%s%s", err, out, said)
	}
	made := filepath.Join(dir, "internal/node/shim/bin")
	build := func() {
		t.Helper()
		// Not the folder that clones share: this is none. Go's own cache is the user's.
		if _, said, err := run(t, dir, []string{"MUSTER_TEST_CACHE=" + filepath.Join(cache, "muster")}, "make", "--no-print-directory", "shim"); err != nil {
			t.Fatalf("make shim: %v\n%s", err, said)
		}
	}
	build()
	for _, program := range []string{"muster-shim", "muster-worker"} {
		source := filepath.Join(dir, "cmd", program, "edited.go")
		mark := "an edit of " + program
		write(t, source, "package main\n\nimport \"os\"\n\nfunc init() {\n\tif len(os.Args) > 1000 {\n\t\tpanic(\""+mark+"\")\n\t}\n}\n", 0o644)
		old := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
		if err := errors.Join(os.Chtimes(source, old, old), os.Chtimes(filepath.Dir(source), old, old)); err != nil {
			t.Fatal(err)
		}
		build()
		built, err := os.ReadFile(filepath.Join(made, program))
		if err != nil || !bytes.Contains(built, []byte(mark)) {
			t.Errorf("%s was not built again: %v", program, err)
		}
	}
	if entries, err := os.ReadDir(made); err != nil || len(entries) != 3 {
		t.Errorf("the folder that is embedded holds %v, %v", entries, err)
	}
}
