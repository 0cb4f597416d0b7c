//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// reader prints what is below the folder that a variable names, and tries to write
// there.
const reader = `import os, sys
root = os.environ[sys.argv[1]]
for folder, _, names in sorted(os.walk(root)):
    for name in sorted(names):
        path = os.path.join(folder, name)
        print("has", os.path.relpath(path, root), open(path).read().strip())
print("is at", root)
if sys.argv[2:] == ["write"]:
    try:
        open(os.path.join(root, "more"), "w")
        print("written")
    except OSError as e:
        print("refused:", e.strerror)
`

// TestJobsReadData: what jobs read is the version that the branch had when they were
// prepared, on the machine once, and told in their status.
func TestJobsReadData(t *testing.T) {
	eachTier(t, func(t *testing.T, m *harness.Muster) {
		ns, ctx := m.Namespace(t), deadline(t, 180*time.Second)
		muster := func(args ...string) harness.Result {
			t.Helper()
			return m.Run(ctx, append([]string{"-n", ns}, args...)...)
		}
		code := folder(t, map[string]string{"read.py": reader})
		run := func(args ...string) harness.Result {
			t.Helper()
			return m.RunIn(ctx, code, append([]string{"-n", ns, "run", "--code", code, "--checkpoints", "none"}, args...)...)
		}

		// 1. What is not there yet is said, and nothing waits for it.
		expect(t, run("--data", "digits", "--", "python3", "read.py", "MUSTER_DATA_DIGITS"), 1, "there is no dataset digits in namespace "+ns)
		expect(t, muster("data", "create", "digits"), 0)
		expect(t, run("--data", "digits", "--", "python3", "read.py", "MUSTER_DATA_DIGITS"), 1, "dataset digits has no data yet")
		expect(t, muster("data", "put", folder(t, map[string]string{"train/a": "one", "train/b": "two", "test/c": "three"}), "digits"), 0)
		expect(t, run("--data", "digits@v9", "--", "python3", "read.py", "MUSTER_DATA_DIGITS"), 1, "dataset digits has no branch, tag or commit v9; it has main")
		expect(t, run("--data", "digits:/no", "--", "python3", "read.py", "MUSTER_DATA_DIGITS"), 1, "nothing in digits@main is or matches /no")

		// 2. By the variable, in both tiers, on a GPU.
		r := run("--gpus", "1", "--data", "digits:/train", "--name", "first", "--", "python3", "read.py", "MUSTER_DATA_DIGITS")
		expect(t, r, 0, "has a one", "has b two")
		if strings.Contains(r.Stdout, "three") {
			t.Errorf("it has more than was asked for: %s", r.Stdout)
		}

		// 3. The version of then, whatever becomes of the branch; two of one dataset.
		expect(t, muster("data", "tag", "digits", "v1"), 0)
		expect(t, muster("data", "put", folder(t, map[string]string{"train/a": "changed"}), "digits"), 0)
		expect(t, run("--data", "digits@v1=old", "--data", "digits:/**/a=new", "--", "python3", "read.py", "MUSTER_DATA_DIGITS"), 0, "has train/a one", "has test/c three")
		expect(t, run("--data", "digits@v1=old", "--data", "digits:/**/a=new", "--", "python3", "read.py", "MUSTER_DATA_DIGITS_2"), 0, "has train/a changed")

		// 4. The status says which commit it was.
		var job v1alpha1.TrainingJob
		got := m.Kubectl(ctx, "", "-n", ns, "get", "trainingjob", "first", "-o", "json")
		expect(t, got, 0)
		if err := json.Unmarshal([]byte(got.Stdout), &job); err != nil {
			t.Fatal(err)
		}
		if len(job.Status.Data) != 1 || job.Status.Data[0].Files != 2 || len(job.Status.Data[0].Commit) != 64 {
			t.Errorf("%+v", job.Status.Data)
		}
		expect(t, muster("describe", "first"), 0, "digits@main:/train", string(job.Status.Data[0].Commit[:12]))

		// 5. Where nothing can be mounted anywhere, that is said; else it is there, and
		// cannot be written.
		r = run("--data", "digits=/data", "--", "python3", "read.py", "MUSTER_DATA_DIGITS", "write")
		if m == plainTier.muster {
			expect(t, r, 1, `"/data" cannot be mounted`, "plain tier", "$MUSTER_ROOT")
		} else {
			expect(t, r, 0, "is at /data", "refused: Read-only file system")
		}
		if tell(t, filepath.Join(m.Home, "fetched")) == 0 {
			t.Error("nothing is in the cache")
		}
	})
}

// tell is how many entries a cache has; none of them is half of one.
func tell(t *testing.T, dir string) int {
	t.Helper()
	found, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		text, err := os.ReadFile(filepath.Join(dir, f.Name(), "note"))
		if err != nil || !strings.Contains(string(text), `"whole":true`) {
			t.Errorf("%s: %s %v", f.Name(), text, err)
		}
	}
	return len(found)
}

// TestReadingAfterKill9: Muster is killed while it fetches what a job reads; the next
// one goes on, and the job reads all of it.
func TestReadingAfterKill9(t *testing.T) {
	m := plainTier.start(t)
	ns, ctx := m.Namespace(t), deadline(t, 180*time.Second)
	files := map[string]string{}
	for i := range 3000 {
		files[fmt.Sprintf("%d/%d", i%30, i)] = strings.Repeat(fmt.Sprint(i, " "), 3000)
	}
	code := folder(t, map[string]string{"count.py": "import os\nr = os.environ['MUSTER_DATA_MANY']\n" +
		"print('counted', sum(1 for f, _, n in os.walk(r) for x in n if open(os.path.join(f, x)).read() == (x + ' ') * 3000))\n"})
	expect(t, m.Run(ctx, "-n", ns, "data", "create", "many"), 0)
	expect(t, m.Run(ctx, "-n", ns, "data", "put", folder(t, files), "many"), 0)
	expect(t, m.RunIn(ctx, code, "-n", ns, "run", "--detach", "--name", "count", "--gpus", "1", "--code", code, "--data", "many", "--", "python3", "count.py"), 0)
	// Once something of it is there Muster is killed, wherever that finds it.
	for {
		found, err := filepath.Glob(filepath.Join(m.Home, "fetched", "*", "files", "29"))
		if err != nil || ctx.Err() != nil {
			t.Fatal(err, ctx.Err())
		}
		if len(found) > 0 {
			break
		}
		time.Sleep(time.Millisecond) // nothing signals that a folder is made
	}
	m.Kill9(t)
	if err := m.Start(ctx); err != nil {
		t.Fatal(err)
	}
	waitPhase(t, m, ns, "count", v1alpha1.JobSucceeded)
	expect(t, m.Run(ctx, "-n", ns, "logs", "count"), 0, "counted 3000")
	tell(t, filepath.Join(m.Home, "fetched"))
}
