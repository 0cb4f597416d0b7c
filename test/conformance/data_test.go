//go:build conformance

package conformance

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/test/e2e/harness"
)

// keeper is somebody who keeps data in versions.
type keeper struct {
	testing.TB
	dir, kubeconfig, namespace string
}

// says runs `muster data`, which has to say something.
func (k *keeper) says(want string, args ...string) {
	k.Helper()
	if r := k.data(args...); r.Code != 0 || !strings.Contains(r.Stdout+r.Stderr, want) {
		k.Fatalf("muster data %s: code %d, want 0 and %q: %s%s", strings.Join(args, " "), r.Code, want, r.Stdout, r.Stderr)
	}
}

func (k *keeper) data(args ...string) harness.Result {
	k.Helper()
	ctx, cancel := context.WithTimeout(k.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, harness.Binary(), append([]string{"--kubeconfig", k.kubeconfig, "-n", k.namespace, "data"}, args...)...)
	cmd.Env, cmd.Dir = append(os.Environ(), "MUSTER_HOME="+k.dir), k.dir
	return harness.Finish(cmd)
}

func (k *keeper) write(name, text string) {
	k.Helper()
	path := filepath.Join(k.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		k.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		k.Fatal(err)
	}
}

func (k *keeper) read(name, want string) {
	k.Helper()
	if text, err := os.ReadFile(filepath.Join(k.dir, name)); err != nil || string(text) != want {
		k.Errorf("%s has %d bytes, want %d of others (%v)", name, len(text), len(want), err)
	}
}

// TestDataInVersions is the same wherever data is kept: put, get, compare, branch,
// merge, and what is damaged would be named.
func TestDataInVersions(t *testing.T) {
	k := &keeper{TB: t, dir: t.TempDir(), kubeconfig: the.kubeconfig, namespace: the.namespace(t)}
	long := strings.Repeat("a line of a file that is cut into chunks\n", 200_000) // 8 MB
	k.write("images/a.png", "a")
	k.write("images/train/b.png", "b")
	k.write("images/long", long)
	k.write("more/a.png", "A")
	k.says("created", "create", "digits")
	k.says("3 added", "put", "images", "digits", "-m", "first")
	k.says("nothing has changed", "put", "images", "digits")
	k.says("tag v1", "tag", "digits", "v1")
	k.says("1 changed", "put", "more", "digits", "-m", "second")
	k.says("~ a.png", "diff", "digits@v1", "digits")
	k.says("branch next", "branch", "digits@v1", "next")
	k.says("1 added", "put", "more/a.png", "digits@next:/x")
	k.says("merged into main", "merge", "digits@next")
	k.says("second", "log", "digits")
	k.says("A", "cat", "digits:/x")
	k.says("1 file removed", "rm", "digits:/x")
	k.says("3 files", "get", "digits", "got")
	k.says("3 files", "get", "digits@v1", "first")
	k.read("got/long", long)
	k.read("got/a.png", "A")
	k.read("first/a.png", "a")
	k.says("nothing is damaged", "verify")
	k.says("the store takes", "du")
}

// TestDataOfOthers has two tenants with a dataset of the same name, of which neither
// sees the other's.
func TestDataOfOthers(t *testing.T) {
	if the.vanish == nil {
		t.Skip("embedded Muster has no tenants")
	}
	tenant := func(name string) *keeper {
		k := &keeper{TB: t, dir: t.TempDir(), namespace: name}
		k.kubeconfig = filepath.Join(k.dir, "kubeconfig")
		if r := the.muster(t, "user", "add", name, "--lifetime", "1h", "--file", k.kubeconfig); r.Code != 0 {
			t.Fatalf("muster user add: %s", r.Stderr)
		}
		t.Cleanup(func() {
			if r := the.muster(t, "user", "remove", name, "--force", "--yes"); r.Code != 0 {
				t.Errorf("muster user remove: %s", r.Stderr)
			}
		})
		return k
	}
	grace, eve := tenant("grace"), tenant("eve")
	for _, k := range []*keeper{grace, eve} {
		k.write("files/"+k.namespace, "of "+k.namespace)
		k.says("created", "create", "digits")
		k.says("1 added", "put", "files", "digits")
		k.says("of "+k.namespace, "cat", "digits:/"+k.namespace)
	}
	eve.namespace = "grace"
	for _, ask := range [][]string{
		{"ls"}, {"ls", "digits"}, {"cat", "digits:/grace"}, {"put", "files", "digits"}, {"get", "digits", "stolen"},
		{"rm", "digits", "--yes"}, {"branch", "digits", "mine"}, {"verify", "digits"}, {"du"},
	} {
		if r := eve.data(ask...); r.Code == 0 {
			t.Errorf("muster data %s, of another tenant: %s", strings.Join(ask, " "), r.Stdout)
		}
	}
	grace.says("1 file", "get", "digits", "back")
	grace.read("back/grace", "of grace")
}
