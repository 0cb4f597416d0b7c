//go:build e2e

package box

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/test/e2e/harness"
)

// TestUpgrade makes a Muster of one user that of all users of the machine. What it has becomes ann's.
func TestUpgrade(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes users and starts a Muster for all of them")
	}
	b := &box{ann: newPerson(t, "muster-upgrade-ann"), ben: newPerson(t, "muster-upgrade-ben")}
	b.install(t)
	home := filepath.Join(shared(t), "home")
	t.Setenv("MUSTER_SOCKET", filepath.Join(shared(t), "run", "muster.sock"))
	one, err := harness.Up(t.Context(), home, "--tier", "plain", "--simulate-gpus", "2xA100")
	must(t, err)
	run := func(m *harness.Muster, want int, args ...string) harness.Result {
		t.Helper()
		r := m.Run(deadline(t, 2*time.Minute), args...)
		if r.Code != want {
			t.Fatalf("muster %s: %+v", strings.Join(args, " "), r)
		}
		return r
	}
	file := filepath.Join(shared(t), "table.csv")
	must(t, os.WriteFile(file, []byte(secrets["data"]), 0o600))
	run(one, 0, "data", "create", "corpus")
	run(one, 0, "data", "put", file, "corpus")
	run(one, 0, "data", "tag", "corpus", "v1")
	run(one, 0, "run", "--name", "before", "--code", filepath.Dir(file), "--", "cat", "table.csv")
	run(one, 0, "down")

	b.Muster = &harness.Muster{Home: home, Args: []string{"--system", "--tier", "plain", "--simulate-gpus", "2xA100"}}
	if r := run(b.Muster, 1, "up", "--system", "--detach"); !strings.Contains(r.Stderr, "--owner") {
		t.Errorf("without an owner: %+v", r)
	}
	if r := run(b.Muster, 1, "up", "--system", "--owner", "muster-upgrade-none", "--detach"); !strings.Contains(r.Stderr, "muster-upgrade-none") {
		t.Errorf("an owner who does not exist: %+v", r)
	}
	b.Args = append(b.Args, "--owner", b.ann.login)
	must(t, b.Start(deadline(t, 2*time.Minute)))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
		defer cancel()
		if err := b.Down(ctx); err != nil {
			t.Error(err)
		}
	})
	harness.Eventually(t, 30*time.Second, "ann's data", func() error {
		if r := b.as(t, b.ann, "data", "cat", "corpus@v1:/table.csv"); r.Stdout != secrets["data"] {
			return fmt.Errorf("%+v", r)
		}
		return nil
	})
	if r := b.job(t, b.ann, "after", `cat "$MUSTER_DATA_CORPUS/table.csv"`, "--data", "corpus@v1"); r.Code != 0 || !strings.Contains(r.Stdout, secrets["data"]) {
		t.Errorf("a job of ann's with the data: %+v", r)
	}
	for _, args := range [][]string{{"data", "cat", "corpus:/table.csv"}, {"data", "cat", "corpus:/table.csv", "-n", b.ann.namespace()}, {"get", "-n", "default"}} {
		if r := b.as(t, b.ben, args...); r.Code == 0 || strings.Contains(r.Stdout, secrets["data"]) {
			t.Errorf("ben: muster %s: %+v", strings.Join(args, " "), r)
		}
	}
	if r := b.Run(deadline(t, time.Minute), "down"); r.Code != 0 {
		t.Fatalf("%+v", r)
	}
	if r := b.Run(deadline(t, time.Minute), "up", "--detach"); r.Code == 0 || !strings.Contains(r.Stderr, "--system") {
		t.Errorf("as a Muster of one user again: %+v", r)
	}
	must(t, b.Start(deadline(t, 2*time.Minute))) // the same owner once more
}
