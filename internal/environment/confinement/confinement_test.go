//go:build linux

package confinement

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/node/process"
	"github.com/muster-dev/muster/internal/node/rig"
)

func TestMain(m *testing.M) { os.Exit(rig.Run(m)) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// each runs a test with and, where this machine allows it, without the plain tier.
func each(t *testing.T, test func(t *testing.T, c *Confinement)) {
	for name, plain := range map[string]bool{"plain": true, "confined": false} {
		t.Run(name, func(t *testing.T) {
			c := open(t, filepath.Join(t.TempDir(), "builds"), plain)
			if ok, reason := c.Confined(); !ok && !plain {
				t.Skip("needs root and namespaces: " + reason)
			}
			test(t, c)
		})
	}
}

func open(t *testing.T, dir string, plain bool) *Confinement {
	t.Helper()
	c, err := Open(t.Context(), Options{Dir: dir, Shim: rig.Shim(t), Plain: plain})
	must(t, err)
	t.Cleanup(c.Close)
	return c
}

// shell is a program with a scratch folder of its own.
func shell(t *testing.T, c *Confinement, script string) Program {
	t.Helper()
	p := Program{Argv: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")}, Scratch: t.TempDir()}
	must(t, c.Give(p.Scratch))
	return p
}

func TestRun(t *testing.T) {
	each(t, func(t *testing.T, c *Confinement) {
		var lines []string
		hear := func(line string) { lines = append(lines, line) }
		must(t, c.Run(t.Context(), shell(t, c, `echo "$HOME" "$TMPDIR"; pwd; printf 'a\r\n'; head -c 300000 /dev/zero | tr '\0' x; echo; echo end`), hear))
		if len(lines) != 5 || len(lines[3]) == 0 || len(lines[3]) > longest || lines[2] != "a" || lines[4] != "end" || !strings.HasPrefix(lines[0], lines[1]+"/home "+lines[1]) {
			t.Errorf("it says %.200q", lines)
		}
		var failed *Error
		if err := c.Run(t.Context(), shell(t, c, "exit 3"), hear); !errors.As(err, &failed) || err.Error() != "it ended with exit code 3" {
			t.Errorf("%v", err)
		}
		missing := shell(t, c, "")
		missing.Argv = []string{"/no/such/program"}
		if err := c.Run(t.Context(), missing, hear); err == nil || !strings.Contains(err.Error(), "does not exist") {
			t.Errorf("%v", err)
		}
		if left, err := os.ReadDir(c.dir); err != nil || len(left) != 0 {
			t.Errorf("%v is left, %v", left, err)
		}
	})
}

// TestCancelled: all processes of a program end with its context, also one that left its session.
func TestCancelled(t *testing.T) {
	each(t, func(t *testing.T, c *Confinement) {
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		pipe := filepath.Join(t.TempDir(), "lock")
		p := shell(t, c, "setsid sh -c 'trap \"\" TERM; sleep 600' & trap '' TERM; echo up; sleep 600")
		p.Lock = pipe
		err := c.Run(ctx, p, func(string) { cancel() })
		if !errors.Is(err, context.Canceled) || time.Since(began) > time.Minute {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		// The lock is held until the last process is gone.
		f, err := os.Open(pipe)
		must(t, err)
		defer func() { _ = f.Close() }()
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			t.Errorf("something is left that holds the lock: %v", err)
		}
	})
}

// TestCancelledAtTheStart: a context that ends while a program starts ends the program, too.
func TestCancelledAtTheStart(t *testing.T) {
	each(t, func(t *testing.T, c *Confinement) {
		began := time.Now()
		must(t, c.Run(t.Context(), shell(t, c, "true"), func(string) {}))
		usual := time.Since(began)
		for i := range 12 {
			p := shell(t, c, "sleep 600")
			p.Lock = filepath.Join(t.TempDir(), "lock")
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*usual/8)
			err := c.Run(ctx, p, func(string) {})
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v", err)
			}
			f, err := os.OpenFile(p.Lock, os.O_CREATE|os.O_RDWR, 0o600)
			must(t, err)
			if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
				t.Errorf("the program runs on: %v", err)
			}
			must(t, f.Close())
		}
	})
}

// TestLeftBehind: Open ends a program that an earlier Muster left running, and removes its folder.
func TestLeftBehind(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "builds")
	runtime, err := process.New(process.Options{Root: dir, Shim: rig.Shim(t)})
	must(t, err)
	earlier, err := runtime.Start(t.Context(), process.Spec{ID: "build-x/program/0", PodUID: "build-x", Container: "program", Argv: []string{"/bin/sleep", "600"}})
	must(t, err)
	t.Cleanup(runtime.Close)
	open(t, dir, true)
	select {
	case <-earlier.Done():
	case <-time.After(20 * time.Second):
		t.Error("it still runs")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// TestTake: files, folders, links and pipes of a program are Muster's own afterwards; the
// targets of its links stay as they are.
func TestTake(t *testing.T) {
	each(t, func(t *testing.T, c *Confinement) {
		outside := filepath.Join(t.TempDir(), "outside")
		must(t, os.WriteFile(outside, nil, 0o600))
		before, err := os.Stat(outside)
		must(t, err)
		p := shell(t, c, `cd made && touch a && chmod 06755 a && ln a b && ln -s `+outside+` link && mkdir -p closed/in && chmod 0 closed && mkfifo pipe`)
		made := filepath.Join(p.Scratch, "made")
		must(t, os.Mkdir(made, 0o755))
		must(t, c.Give(made))
		must(t, c.Run(t.Context(), p, func(line string) { t.Log(line) }))
		must(t, c.Take(t.Context(), made))
		after, err := os.Stat(outside)
		must(t, err)
		if before.Mode() != after.Mode() || before.Sys().(*syscall.Stat_t).Ctim != after.Sys().(*syscall.Stat_t).Ctim {
			t.Errorf("the file that a link leads to was changed: %v, %v", before, after)
		}
		if confined, _ := c.Confined(); !confined {
			return
		}
		must(t, filepath.WalkDir(made, func(path string, _ os.DirEntry, err error) error {
			must(t, err)
			info, err := os.Lstat(path)
			must(t, err)
			if owner := info.Sys().(*syscall.Stat_t).Uid; int(owner) != os.Geteuid() || info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
				t.Errorf("%s has the mode %s and belongs to %d", path, info.Mode(), owner)
			}
			return nil
		}))
	})
}

// TestWhatAProgramSees: a confined program runs as a user of its own, and sees only its
// Readable files in hidden folders; a program that runs as a job's is not confined.
func TestWhatAProgramSees(t *testing.T) {
	c := open(t, filepath.Join(t.TempDir(), "builds"), false)
	if ok, reason := c.Confined(); !ok {
		t.Skip("needs root and namespaces: " + reason)
	}
	hidden := filepath.Join(t.TempDir(), "hidden")
	for _, name := range []string{"secret", "needed/file", "deep/er/needed"} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(hidden, name)), 0o755))
		must(t, os.WriteFile(filepath.Join(hidden, name), []byte("x"), 0o644))
	}
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.MkdirAll(filepath.Join(hidden, "behind"), 0o755))
	must(t, os.WriteFile(filepath.Join(hidden, "behind", "file"), []byte("x"), 0o644))
	must(t, os.Symlink(filepath.Join(hidden, "behind", "file"), link))
	p := shell(t, c, `id -u; cd `+hidden+`; find . -type f | sort; touch needed/file needed/new new 2>/dev/null && echo written; echo in >/tmp/mine; cat "$TMPDIR/mine"`)
	p.Hidden, p.Readable = []string{hidden}, []string{filepath.Join(hidden, "needed"), filepath.Join(hidden, "deep/er/needed"), filepath.Join(hidden, "none"), link}
	var lines []string
	must(t, c.Run(t.Context(), p, func(line string) { lines = append(lines, line) }))
	if want := []string{"61007", "./behind/file", "./deep/er/needed", "./needed/file", "in"}; !slices.Equal(lines, want) {
		t.Errorf("it says %q, want %q", lines, want)
	}
	if _, err := os.Lstat("/tmp/mine"); err == nil {
		t.Error("it wrote to the machine's /tmp")
	}
	lines = nil
	must(t, c.Run(t.Context(), Program{Argv: []string{"/bin/sh", "-c", "id -u; cat " + hidden + "/secret; readlink /proc/1/exe >/dev/null && ps ax 2>/dev/null | wc -l >/dev/null"}, Env: p.Env, Hidden: p.Hidden, AsJob: true}, func(line string) { lines = append(lines, line) }))
	if want := []string{"0", "x"}; !slices.Equal(lines, want) {
		t.Errorf("as a job it says %q, want %q", lines, want)
	}
}

// TestMemory: a program cannot have all of the machine's memory.
func TestMemory(t *testing.T) {
	c := open(t, filepath.Join(t.TempDir(), "builds"), true)
	if c.limits == nil {
		t.Skip("needs control groups")
	}
	c.limits.MemoryBytes = 64 << 20
	err := c.Run(t.Context(), shell(t, c, `exec python3 -c "x = bytearray(200 << 20)"`), func(string) {})
	if err == nil || err.Error() != "it needs more memory than a build may use on this machine, 0.1 GiB" {
		t.Errorf("%v", err)
	}
}
