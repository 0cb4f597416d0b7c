//go:build e2e

package box

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/test/e2e/harness"
)

// box is a Muster that two users share. ann holds two of its four GPUs; ben tries to reach ann's work.
type box struct {
	*harness.Muster
	tier string
	// programs is a folder with muster and the program of attempts, which all users may run.
	programs string
	ann, ben person
	// jobs counts those of [box.job], for their names.
	jobs int
}

// secrets are texts of ann's. None of them may reach ben.
var secrets = map[string]string{
	"code": "SECRET-OF-THE-CODE", "variable": "SECRET-OF-A-VARIABLE", "data": "SECRET-OF-THE-DATA", "log": "SECRET-OF-THE-LOG",
	"temporary file": "SECRET-OF-A-TEMPORARY-FILE", "file of the home": "SECRET-OF-THE-HOME", "Secret": "SECRET-OF-A-SECRET", "result": "SECRET-OF-A-RESULT",
}

// held is the program of ann's job.
const held = `
import http.server, os, pathlib, tempfile
# SECRET-OF-THE-CODE
print("SECRET-OF-" + "THE-LOG", flush=True)
pathlib.Path(tempfile.gettempdir(), "kept").write_text("SECRET-OF-A-" + "TEMPORARY-FILE")
pathlib.Path("/tmp", "muster-try-ann").write_text("SECRET-OF-A-" + "TEMPORARY-FILE")
pathlib.Path(os.environ["MUSTER_CHECKPOINT_DIR"], "model").write_text("SECRET-OF-A-" + "RESULT")
try:
    server = http.server.HTTPServer(("", 18080), http.server.SimpleHTTPRequestHandler)
except OSError: # in the plain tier, another program of the machine may have the port
    server = http.server.HTTPServer(("", 0), http.server.SimpleHTTPRequestHandler)
server.serve_forever()
`

// open starts Muster, and ann's work.
func open(t *testing.T, tier string) *box {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root makes users and starts a Muster for all of them")
	}
	b := &box{tier: tier, ann: newPerson(t, "muster-try-ann"), ben: newPerson(t, "muster-try-ben")}
	b.install(t)
	home := filepath.Join(shared(t), "home")
	must(t, os.Mkdir(home, 0o700))
	must(t, os.WriteFile(filepath.Join(home, "config.yaml"), []byte("apiVersion: config.muster.dev/v1alpha1\nkind: Embedded\nuserProcesses: 150\n"), 0o600))
	t.Setenv("MUSTER_SOCKET", filepath.Join(shared(t), "run", "muster.sock"))
	var err error
	b.Muster, err = harness.Up(t.Context(), home, "--system", "--tier", tier, "--simulate-gpus", "4xA100")
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*time.Minute)
		defer cancel()
		if err := b.Down(ctx); err != nil {
			t.Error(err)
		}
	})
	b.work(t)
	return b
}

// shared is a new folder that all users may enter.
func shared(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.Chmod(filepath.Dir(dir), 0o755))
	must(t, os.Chmod(dir, 0o755))
	return dir
}

// install copies the programs to a folder that all users may read.
func (b *box) install(t testing.TB) {
	t.Helper()
	b.programs = shared(t)
	self, err := os.Executable()
	must(t, err)
	for from, name := range map[string]string{harness.Binary(): "muster", self: "attempts"} {
		in, err := os.Open(from)
		must(t, err)
		out, err := os.OpenFile(filepath.Join(b.programs, name), os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
		must(t, err)
		_, err = io.Copy(out, in)
		_ = in.Close()
		must(t, err)
		must(t, out.Close())
	}
}

// as runs muster as a user.
func (b *box) as(t testing.TB, p person, args ...string) harness.Result {
	t.Helper()
	return harness.Finish(p.command(deadline(t, 2*time.Minute), b.environment(), filepath.Join(b.programs, "muster"), args...))
}

// shell runs a script on the machine as a user, in a shell as of a login.
func (b *box) shell(t *testing.T, p person, script string) harness.Result {
	t.Helper()
	return harness.Finish(p.command(deadline(t, 2*time.Minute), b.environment(), "sh", "-c", script))
}

// attempt runs an attempt on the machine as a user.
func (b *box) attempt(t testing.TB, p person, words string, args ...string) harness.Result {
	t.Helper()
	env := append(b.environment(), "MUSTER_TEST_ATTEMPT="+words)
	return harness.Finish(p.command(deadline(t, time.Minute), env, filepath.Join(b.programs, "attempts"), args...))
}

// job runs a script as a job of a user to its end, and returns its output.
func (b *box) job(t *testing.T, p person, name, script string, flags ...string) harness.Result {
	t.Helper()
	b.jobs++
	args := append([]string{"run", "--name", fmt.Sprintf("%s-%d", name, b.jobs), "--code", "none"}, flags...)
	return b.as(t, p, append(args, "--", "sh", "-c", script)...)
}

func (b *box) environment() []string { return []string{"MUSTER_SOCKET=" + os.Getenv("MUSTER_SOCKET")} }

// work is ann's: data, a Secret, and a job that holds two GPUs and runs on.
func (b *box) work(t *testing.T) {
	t.Helper()
	p := b.ann
	kept := "/tmp/muster-try-ann" // the plain tier has the machine's /tmp
	must(t, os.RemoveAll(kept))
	t.Cleanup(func() { must(t, os.RemoveAll(kept)) })
	p.write(t, "private", secrets["file of the home"])
	p.write(t, "work/train.py", held)
	table := p.write(t, "table.csv", secrets["data"])
	for _, args := range [][]string{
		{"data", "create", "corpus"},
		{"data", "put", table, "corpus"},
		{"kubectl", "create", "secret", "generic", "key", "--from-literal=key=" + secrets["Secret"]},
		{"run", "--detach", "--name", "held", "--gpus", "2", "--code", filepath.Join(p.home, "work"), "--env", "WORD=" + secrets["variable"], "--data", "corpus", "--", "python3", "train.py"},
	} {
		if r := b.as(t, p, args...); r.Code != 0 {
			t.Fatalf("muster %s as %s: %d %s%s", strings.Join(args, " "), p.login, r.Code, r.Stdout, r.Stderr)
		}
	}
	harness.Eventually(t, time.Minute, "ann's job", func() error {
		if r := b.as(t, p, "logs", "held"); !strings.Contains(r.Stdout, secrets["log"]) {
			return fmt.Errorf("%d %s%s\n%s", r.Code, r.Stdout, r.Stderr, b.as(t, p, "describe", "held").Stdout)
		}
		return nil
	})
}

func deadline(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// keeps fails the test if a result has a secret of ann's.
func keeps(t *testing.T, what string, r harness.Result) {
	t.Helper()
	for of, secret := range secrets {
		if strings.Contains(r.Stdout+r.Stderr, secret) {
			t.Errorf("%s: ben has ann's %s: %s%s", what, of, r.Stdout, r.Stderr)
		}
	}
}
