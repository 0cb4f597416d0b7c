//go:build e2e

package box

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/muster-dev/muster/test/e2e/harness"
)

// person is a Unix user that a test made.
type person struct {
	login, home string
	uid, gid    uint32
}

// namespace is that of the user in the API.
func (p person) namespace() string { return fmt.Sprintf("u-%d", p.uid) }

// newPerson adds a user to the machine until the test ends. A user of an earlier run that was killed is
// removed first.
func newPerson(t testing.TB, login string) person {
	t.Helper()
	if known(t, login) {
		removePerson(t, login)
	}
	home := filepath.Join(t.TempDir(), login)
	change(t, "useradd", "--create-home", "--home-dir", home, "--shell", "/bin/sh", "--user-group", login)
	t.Cleanup(func() {
		if known(t, login) {
			removePerson(t, login)
		}
	})
	p := person{login: login, home: home, uid: number(t, login, "-u"), gid: number(t, login, "-g")}
	for dir := filepath.Dir(home); dir != os.TempDir(); dir = filepath.Dir(dir) { // t.TempDir closes its folder to others
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(home, 0o700); err != nil {
		t.Fatal(err)
	}
	return p
}

func removePerson(t testing.TB, login string) {
	t.Helper()
	change(t, "userdel", "--force", login)
}

// change changes the users of the machine. One such program at a time has their files.
func change(t testing.TB, program string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	harness.Eventually(t, 30*time.Second, program, func() error {
		r := harness.Finish(exec.CommandContext(ctx, program, args...))
		switch {
		case r.Code == 0:
			return nil
		case strings.Contains(r.Stderr, "cannot lock"):
			return errors.New(r.Stderr)
		}
		t.Fatalf("%s %s: %s", program, strings.Join(args, " "), r.Stderr)
		return nil
	})
}

// known reports whether the machine has a user.
func known(t testing.TB, login string) bool {
	t.Helper()
	return harness.Finish(exec.CommandContext(context.WithoutCancel(t.Context()), "id", login)).Code == 0
}

// number asks id for a number of a user.
func number(t testing.TB, login, which string) uint32 {
	t.Helper()
	r := harness.Finish(exec.CommandContext(t.Context(), "id", which, login))
	n, err := strconv.ParseUint(strings.TrimSpace(r.Stdout), 10, 32)
	if err != nil {
		t.Fatalf("id %s %s: %s", which, login, r.Stderr)
	}
	return uint32(n)
}

// command is a program that the user starts, as after a login, in the user's home.
func (p person) command(ctx context.Context, env []string, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = p.home
	cmd.Env = append([]string{"HOME=" + p.home, "USER=" + p.login, "LOGNAME=" + p.login, "PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"}, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: p.uid, Gid: p.gid}}
	cmd.WaitDelay = 20 * time.Second
	return cmd
}

// write makes a file of the user's.
func (p person) write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(p.home, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for ; path != p.home; path = filepath.Dir(path) {
		if err := os.Chown(path, int(p.uid), int(p.gid)); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(p.home, name)
}
