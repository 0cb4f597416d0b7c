package posts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/muster-dev/muster/internal/foreman"
	"github.com/muster-dev/muster/internal/foreman/shift"
	"github.com/muster-dev/muster/internal/foreman/worker"
	"github.com/muster-dev/muster/internal/node/rig"
)

// asWorker makes this test's program the worker that lies in posts.
const asWorker = "MUSTER_TEST_WORKER"

func TestMain(m *testing.M) {
	if os.Getenv(asWorker) != "" {
		os.Exit(worker.Main(context.Background(), os.Args[1:]))
	}
	os.Exit(rig.Run(m))
}

// ownProgram copies this test's program to where all users may run it.
func ownProgram(t *testing.T) string {
	t.Helper()
	from, err := os.Open(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = from.Close() }()
	path := filepath.Join(rig.Passable(t), "program")
	to, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	if err == nil {
		_, err = io.Copy(to, from)
		err = errors.Join(err, to.Close(), os.Chmod(path, 0o755))
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestWorkerOfAUser: a worker that runs as the owner of a namespace brings files of the owner through a post.
// Files of others, and what is no file, do not come.
func TestWorkerOfAUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it needs root: it becomes another user")
	}
	others := filepath.Join(rig.Folder(t, stranger, stranger, 0o755), "secret")
	if err := errors.Join(os.WriteFile(others, []byte("secret"), 0o600), os.Chown(others, stranger, stranger)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ line, made, problem string }{
		"a file":                   {`echo "$(id -u) $(cat $MUSTER_INPUT_IN/name)" > $MUSTER_OUTPUT/made`, "1000 a file\n", ""},
		"a link to an input":       {`ln -s $MUSTER_INPUT_IN/name $MUSTER_OUTPUT/made`, "a link to an input", ""},
		"a link to a secret":       {`ln -s ` + others + ` $MUSTER_OUTPUT/made`, "", "leads to"},
		"a hard link to a secret":  {`ln ` + others + ` $MUSTER_OUTPUT/made || echo refused > $MUSTER_OUTPUT/made`, "refused\n", ""},
		"a pipe":                   {`mkfifo $MUSTER_OUTPUT/made`, "", "a pipe"},
		"another folder":           {`rmdir $MUSTER_OUTPUT && ln -s ` + filepath.Dir(others) + ` $MUSTER_OUTPUT`, "", "in the place of the folder"},
		"a file that it replaces":  {`echo 1 > $MUSTER_OUTPUT/made; (for i in 1 2 3; do ln -sf ` + others + ` $MUSTER_OUTPUT/x; mv -f $MUSTER_OUTPUT/x $MUSTER_OUTPUT/made; sleep 0.1; done) & exit 0`, "", "any"},
		"the token for all to see": {`cat ` + "$POST/token" + ` > $MUSTER_OUTPUT/made`, "by this post", ""},
	} {
		t.Run(name, func(t *testing.T) {
			made, problem := computeAs(t, owner, name, c.line)
			if c.problem == "any" { // it depends on who is faster
				if strings.Contains(made, "secret") {
					t.Errorf("it made %q", made)
				}
				return
			}
			if made != c.made || (problem == "") != (c.problem == "") || !strings.Contains(problem, c.problem) {
				t.Errorf("it made %q, problem %q; want %q, %q", made, problem, c.made, c.problem)
			}
		})
	}
	if made, problem := computeAs(t, stranger, "another user", "true"); made != "" || !strings.Contains(problem, "permission denied") {
		t.Errorf("the worker of another user made %q, problem %q", made, problem)
	}
}

// computeAs computes one datum of a work of u-1000 by a worker that runs as a user, and returns the file that
// it made or why it failed.
func computeAs(t *testing.T, uid uint32, datum, line string) (made, problem string) {
	t.Helper()
	f, err := foreman.New(foreman.Options{Dir: t.TempDir(), Near: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	group.Go(func() { _ = f.Run(ctx) })
	over := make(chan struct{})
	_, err = f.Open(ctx, foreman.Spec{
		Name: work, Owner: "u-1000", Tries: 1, Datums: []foreman.Datum{{ID: "d", Name: datum}},
		Program: shift.Program{Command: []string{"sh", "-c", line}, Inputs: []string{"in"}, Carried: true},
		Fetch: func(_ context.Context, d foreman.Datum, into *os.Root) error {
			return errors.Join(into.Mkdir("in", 0o755), into.WriteFile("in/name", []byte(d.Name), 0o600))
		},
		Record: func(_ context.Context, results []foreman.Result) error {
			defer close(over)
			if problem = results[0].Error; problem != "" {
				return nil
			}
			text, err := os.ReadFile(filepath.Join(results[0].Folder, shift.OutFolder, "made"))
			made = string(text)
			return err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(Options{Dir: folderOfPosts(t), Worker: ownProgram(t), Serve: f.HandlerFor})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	folder := p.make(t, podOf("u-1000"))
	scratch := rig.Folder(t, int(uid), int(uid), 0o700)
	cmd := exec.CommandContext(ctx, filepath.Join(folder, programFile), "--post", folder, "--work", work, "--scratch", scratch)
	cmd.Env = []string{asWorker + "=1", "PATH=" + os.Getenv("PATH"), "ROLE=worker", "INDEX=0", "POST=" + folder}
	cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Sprint(err, ": ", said.String())
	}
	<-over
	return made, problem
}
