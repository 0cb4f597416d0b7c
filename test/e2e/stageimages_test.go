//go:build e2e && cluster

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/test/cluster"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// boxedPipeline has programs that run in an image: one datum at a time, all by one
// process, and a training stage.
const boxedPipeline = `metadata: {name: boxed}
spec:
  environment: {image: %q}
  stages:
  - name: upper
    input: {dataset: words, glob: "/*"}
    parallelism: {max: 2}
    command: [sh, -c, 'test ! -e /usr/share || exit 7; cat /srv/only-here; cat $MUSTER_INPUT_WORDS/* | tr a-z A-Z > $MUSTER_OUTPUT/$MUSTER_DATUM; ln -s $MUSTER_DATUM $MUSTER_OUTPUT/link-$MUSTER_DATUM']
  - name: count
    input: {stage: upper, glob: "/*"}
    batch: true
    command: [sh, -c, 'while d=$($MUSTER_NEXT) && [ -n "$d" ]; do out=${d##*\"output\":\"}; in=${d#*\"upper\":\"}; cat ${in%%%%\"*}/* | wc -c | tr -d " \n" > ${out%%%%\"*}/$(ls ${in%%%%\"*}); done']
  - name: train
    input: {stage: upper}
    mountPath: /pfs
    training: {roles: [{name: worker, command: [sh, -c, 'cat /pfs/upper/[ab] > /pfs/out/model']}]}
`

// boxedSpecification is a Pachyderm specification as it is, with its image.
const boxedSpecification = `{
  "pipeline": {"name": "shout"},
  "transform": {"image": %q, "cmd": ["sh"], "stdin": ["for f in /pfs/words/*; do (cat $f; cat /srv/only-here) > /pfs/out/$(basename $f); done"]},
  "input": {"pfs": {"repo": "words", "glob": "/*"}}
}`

// TestStagesInImages runs stages whose programs are in an image that has nothing
// but a busybox, with a real containerd, in both tiers.
func TestStagesInImages(t *testing.T) {
	ctx := deadline(t, 8*time.Minute)
	containerd, err := cluster.StartRuntime(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := containerd.Stop(); err != nil {
			t.Error(err)
		}
	})
	box, err := cluster.Busybox(ctx)
	if err != nil {
		t.Fatal(err)
	}
	box.Name, box.Files = boxImage, append(box.Files, cluster.File{To: "/srv/only-here", Content: "only in the image\n"})
	if err := containerd.Import(ctx, "muster", box); err != nil {
		t.Fatal(err)
	}
	for _, x := range tiers {
		t.Run(x.name, func(t *testing.T) {
			m := muster(t, x, "containerd: "+containerd.Socket+"\n")
			t.Run("pipeline", func(t *testing.T) { boxedStages(t, m) })
			t.Run("killed", func(t *testing.T) { boxedWorkerKilled(t, m) })
			t.Run("pachyderm", func(t *testing.T) { boxedPachyderm(t, m) })
			t.Run("absent", func(t *testing.T) { boxedAbsent(t, m) })
		})
	}
}

// applyText applies a file of this text.
func applyText(t *testing.T, m *harness.Muster, ns, name, text string) harness.Result {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return m.Run(deadline(t, time.Minute), "-n", ns, "pipeline", "apply", "-f", file)
}

func boxedStages(t *testing.T, m *harness.Muster) {
	ns, ctx := m.Namespace(t), deadline(t, 3*time.Minute)
	muster := func(args ...string) harness.Result {
		t.Helper()
		return m.Run(ctx, append([]string{"-n", ns}, args...)...)
	}
	expect(t, applyText(t, m, ns, "p.yaml", fmt.Sprintf(boxedPipeline, boxImage)), 0)
	expect(t, muster("data", "create", "words"), 0)
	expect(t, muster("data", "put", folder(t, map[string]string{"a": "one\n", "b": "three\n"}), "words"), 0)
	expect(t, muster("pipeline", "wait", "boxed", "--timeout", "120s"), 0)
	expect(t, muster("data", "cat", "boxed-upper:/a"), 0, "ONE")
	expect(t, muster("data", "ls", "boxed-upper"), 0, "link-a")
	expect(t, muster("data", "cat", "boxed-count:/b"), 0, "6")
	expect(t, muster("data", "cat", "boxed-train:/model"), 0, "ONE\nTHREE")
	run := lastRun(t, muster("pipeline", "runs", "boxed", "-o", "json"))
	expect(t, muster("pipeline", "logs", run.Name, "upper", "--datum", "a"), 0, "only in the image")
	// The same again is nothing to compute.
	expect(t, muster("data", "put", folder(t, map[string]string{"a": "one\n", "b": "three\n", "c": "four\n"}), "words"), 0)
	expect(t, muster("pipeline", "wait", "boxed", "--timeout", "120s"), 0)
	run = lastRun(t, muster("pipeline", "runs", "boxed", "-o", "json"))
	if diff := cmp.Diff(int64(1), run.Stages[0].Datums.Computed); diff != "" {
		t.Errorf("%+v: %s", run, diff)
	}
}

// boxedWorkerKilled kills a worker with a datum in its hands, and Muster with it.
func boxedWorkerKilled(t *testing.T, m *harness.Muster) {
	ns, ctx := m.Namespace(t), deadline(t, 3*time.Minute)
	muster := func(args ...string) harness.Result {
		t.Helper()
		return m.Run(ctx, append([]string{"-n", ns}, args...)...)
	}
	text := fmt.Sprintf(`metadata: {name: slow}
spec: {stages: [{name: s, input: {dataset: words, glob: "/*"}, environment: {image: %q},
  command: [sh, -c, 'echo begun; sleep 8; cp $MUSTER_INPUT_WORDS/* $MUSTER_OUTPUT']}]}`, boxImage)
	expect(t, applyText(t, m, ns, "p.yaml", text), 0)
	expect(t, muster("data", "create", "words"), 0)
	expect(t, muster("data", "put", folder(t, map[string]string{"a": "one\n"}), "words"), 0)
	program := func() []harness.Process {
		var out []harness.Process
		for _, p := range harness.Processes(m.Home) {
			if strings.Contains(p.Command, "echo begun; sleep 8") {
				out = append(out, p)
			}
		}
		return out
	}
	harness.Eventually(t, time.Minute, "waiting for the program", func() error {
		if len(program()) == 0 {
			return fmt.Errorf("it does not run: %v", harness.Processes(m.Home))
		}
		return nil
	})
	m.Kill9(t)
	if err := m.Start(ctx); err != nil {
		t.Fatal(err)
	}
	expect(t, muster("pipeline", "wait", "slow", "--timeout", "90s"), 0)
	expect(t, muster("data", "cat", "slow-s:/a"), 0, "one")
	run := lastRun(t, muster("pipeline", "runs", "slow", "-o", "json"))
	if run.Stages[0].Datums.Computed != 1 {
		t.Errorf("%+v", run)
	}
}

func boxedPachyderm(t *testing.T, m *harness.Muster) {
	ns, ctx := m.Namespace(t), deadline(t, 3*time.Minute)
	muster := func(args ...string) harness.Result {
		t.Helper()
		return m.Run(ctx, append([]string{"-n", ns}, args...)...)
	}
	expect(t, muster("data", "create", "words"), 0)
	expect(t, applyText(t, m, ns, "p.json", fmt.Sprintf(boxedSpecification, boxImage)), 0, "pipeline shout created")
	expect(t, muster("data", "put", folder(t, map[string]string{"a": "one\n"}), "words"), 0)
	expect(t, muster("pipeline", "wait", "shout", "--timeout", "90s"), 0)
	expect(t, muster("data", "cat", "shout:/a"), 0, "one\nonly in the image")
}

func boxedAbsent(t *testing.T, m *harness.Muster) {
	ns, ctx := m.Namespace(t), deadline(t, time.Minute)
	expect(t, m.Run(ctx, "-n", ns, "data", "create", "words"), 0)
	expect(t, m.Run(ctx, "-n", ns, "data", "put", folder(t, map[string]string{"a": "one\n"}), "words"), 0)
	text := strings.ReplaceAll(fmt.Sprintf(boxedPipeline, "127.0.0.1:1/none:1"), "name: boxed", "name: none")
	expect(t, applyText(t, m, ns, "p.yaml", text), 0)
	harness.Eventually(t, 40*time.Second, "waiting for the registry's words", func() error {
		r := m.Run(ctx, "-n", ns, "pipeline", "runs", "none", "-o", "json")
		for _, word := range []string{"environment.image", "127.0.0.1:1/none:1", "refused"} {
			if !strings.Contains(r.Stdout, word) {
				return fmt.Errorf("nothing says %q: %s%s", word, r.Stdout, r.Stderr)
			}
		}
		return nil
	})
}
