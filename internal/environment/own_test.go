//go:build linux

package environment

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/muster-dev/muster/internal/environment/confinement"
	"github.com/muster-dev/muster/internal/node/rig"
)

// users are those of the namespaces u-61234 and u-61333.
func users(_ context.Context, namespace string) (confinement.User, error) {
	if namespace == "u-61234" {
		return confinement.User{UID: 61234, GID: 61235}, nil
	}
	return confinement.User{UID: 61333, GID: 61334}, nil
}

// TestEnvironmentsOfUsers: two users who ask for the same get environments of their own, built with their own
// rights. Neither can change, or read, the other's.
func TestEnvironmentsOfUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it needs root: builds run as other users")
	}
	where := place(t)
	b := start(t, Options{Dir: filepath.Join(rig.Passable(t), "environments"), Place: where, Owner: users})
	other := confinement.User{UID: 61444, GID: 61444}
	paths := map[string]string{}
	for namespace, uid := range map[string]uint32{"u-61234": 61234, "u-61333": 61333} {
		s, _ := b.settled(t, Request{Namespace: namespace, Requirements: "six==1.16.0"})
		if s.Phase != Ready || paths[s.Path] != "" {
			t.Fatalf("%s: %+v; log %s", namespace, s, b.log)
		}
		paths[s.Path] = namespace
		for _, at := range []string{s.Path, filepath.Join(s.Path, "pyvenv.cfg")} {
			info, err := os.Stat(at)
			must(t, err)
			if stat, ok := info.Sys().(*syscall.Stat_t); !ok || stat.Uid != uid {
				t.Errorf("%s is of user %d", at, stat.Uid)
			}
		}
		for _, try := range []string{`cat "$0/pyvenv.cfg"`, `: > "$0/poison"`, `: > "$0/../poison"`} {
			program := confinement.Program{Argv: []string{"/bin/sh", "-c", try, s.Path}, AsJob: true, User: &other}
			if err := where.Run(t.Context(), program, func(string) {}); err == nil {
				t.Errorf("another user ran %s", try)
			}
		}
	}
}

// TestProgramsOfUsers: where programs are not confined, they run as the user, too, and never as root.
func TestProgramsOfUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it needs root: programs run as other users")
	}
	for _, plain := range []bool{false, true} {
		where, err := confinement.Open(t.Context(), confinement.Options{Dir: filepath.Join(t.TempDir(), "builds"), Shim: rig.Shim(t), Plain: plain})
		must(t, err)
		t.Cleanup(where.Close)
		said := ""
		user := confinement.User{UID: 61234, GID: 61235, Groups: []uint32{61236}}
		program := confinement.Program{Argv: []string{"/bin/sh", "-c", "id -u; id -G; grep NoNewPrivs /proc/self/status"}, Env: []string{"PATH=" + os.Getenv("PATH")}, User: &user}
		if !plain {
			program.AsJob = true
		}
		must(t, where.Run(t.Context(), program, func(line string) { said += line + "\n" }))
		if said != "61234\n61235 61236\nNoNewPrivs:\t1\n" {
			t.Errorf("plain %v: %q", plain, said)
		}
	}
}

// TestPathOfAUser: the Python of an environment that exists runs as the user who named it, without root's
// variables, and a folder that the user cannot read is refused.
func TestPathOfAUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it needs root: programs run as other users")
	}
	home := rig.Folder(t, 61234, 61235, 0o700)
	must(t, os.MkdirAll(filepath.Join(home, "bin"), 0o755))
	program := "#!/bin/sh\nid -u > " + home + "/who; env > " + home + `/variables; echo '{"executable":"/x","version":"3.11.7"}'` + "\n"
	must(t, os.WriteFile(filepath.Join(home, "bin", "python"), []byte(program), 0o755))
	b := start(t, Options{Owner: users})
	if s, _ := b.settled(t, Request{Namespace: "u-61234", Path: home}); s.Phase != Ready {
		t.Fatalf("%+v", s)
	}
	who, err := os.ReadFile(filepath.Join(home, "who"))
	must(t, err)
	variables, err := os.ReadFile(filepath.Join(home, "variables"))
	must(t, err)
	if string(who) != "61234\n" || strings.Contains(string(variables), "HOME="+os.Getenv("HOME")+"\n") {
		t.Errorf("it ran as %s, with %s", who, variables)
	}
	if s, _ := b.settled(t, Request{Namespace: "u-61333", Path: home}); s.Phase != Failed || !strings.Contains(s.Message, "user 61333") {
		t.Errorf("another user: %+v", s)
	}
}

// TestAskAsOwner: a program that a job brings along runs as the owner of the job's namespace, without root's
// variables.
func TestAskAsOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it needs root: programs run as other users")
	}
	t.Setenv("USER", "root")
	b := start(t, Options{Owner: users})
	for namespace, want := range map[string]string{"u-61234": "61234 61235 x\n", "u-61333": "61333 61334 x\n"} {
		if said, err := b.Ask(t.Context(), namespace, "/bin/sh", "-c", "echo $(id -u) $(id -g) x$USER"); err != nil || said != want {
			t.Errorf("in %s it says %q, %v", namespace, said, err)
		}
	}
	away := errors.New("the directory of users is away")
	b = start(t, Options{Owner: func(context.Context, string) (confinement.User, error) { return confinement.User{}, away }})
	if said, err := b.Ask(t.Context(), "u-61234", "/bin/sh", "-c", "id -u"); !errors.Is(err, away) || said != "" {
		t.Errorf("for no user it says %q, %v", said, err)
	}
}

// TestShareable: only wheels that are pinned by hash are shared between users.
func TestShareable(t *testing.T) {
	hash := " --hash=sha256:" + strings.Repeat("a", 64)
	for _, c := range []struct {
		text string
		want bool
	}{
		{"", true}, {"a==1" + hash, true}, {"a==1", false}, {"a==1" + hash + "\nb==2", false}, {"a==1 --hash=md5:aa", false},
		{"--index-url https://x.example\na==1" + hash, true}, {"--no-binary :all:\na==1" + hash, false}, {"./local", false},
	} {
		text, err := Normalise(c.text)
		if err != nil && c.want {
			t.Fatal(err)
		}
		if got := err == nil && shareable(Request{}, text); got != c.want {
			t.Errorf("%q: %v, want %v", c.text, got, c.want)
		}
	}
	if shareable(Request{Secret: "u-1/x"}, "a==1"+hash) {
		t.Error("packages of a Secret are shared")
	}
}
