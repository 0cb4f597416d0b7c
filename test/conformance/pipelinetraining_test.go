//go:build conformance

package conformance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/test/e2e/harness"
)

// learning is a pipeline of a job of three members, with a stage that reads what it
// made.
const learning = `metadata: {name: learning}
spec:
  environment: {image: %q}
  stages:
  - name: train
    input: {dataset: lessons}
    mountPath: /pfs
    training:
      environment: {image: %[1]q}
      framework: TensorFlow
      checkpoints: {none: true}
      backoffLimit: 0
      roles:
      - {name: ps, command: [python, -c, %q]}
      - {name: worker, replicas: 2, gpus: 1, command: [python, -c, %q]}
  - name: tell
    input: {stage: train}
    gpus: 1
    command: [sh, -c, 'cd $MUSTER_INPUT_TRAIN; cat $(find . -type f | sort) > $MUSTER_OUTPUT/all']
`

// serving is what a parameter server does: nothing ends it but who stops it.
const serving = `
import os, signal, socket, sys
def stop(*_):
    open(os.environ["MUSTER_OUTPUT"] + "/served", "w").write("served\n")
    sys.exit()
signal.signal(signal.SIGTERM, stop)
server = socket.create_server(("", int(os.environ["PS_HOSTS"].rsplit(":", 1)[1])))
while True:
    server.accept()
`

// meeting is how a worker begins: once the parameter server is there.
const meeting = `
import json, os, pathlib, socket, sys, time
host, port = os.environ["PS_HOSTS"].split(":")
while True:
    try:
        socket.create_connection((host, int(port)), 1).close()
        break
    except OSError:
        time.sleep(0.1)
index, out = os.environ["INDEX"], pathlib.Path(os.environ["MUSTER_OUTPUT"])
`

// onAgents keeps pods of a test off nodes without an agent, by which stages reach who
// gives out their files.
func onAgents(t *testing.T) {
	t.Helper()
	if !the.apart {
		return
	}
	const which, taint = "!muster.dev/agent", "conformance.muster.dev/agents"
	if r := the.kubectl(t, "", "taint", "nodes", "-l", which, taint+"=only:NoSchedule"); r.Code != 0 {
		t.Fatalf("tainting nodes without an agent: %s", r.Stderr)
	}
	t.Cleanup(func() {
		if r := the.kubectl(t, "", "taint", "nodes", "-l", which, taint+"-"); r.Code != 0 {
			t.Errorf("taking the taint away: %s", r.Stderr)
		}
	})
}

// TestPipelineTraining: the members of a job that is a stage read the same, on whatever
// node they are, and what they write becomes one commit: also what one writes that is
// stopped once the others are done.
func TestPipelineTraining(t *testing.T) {
	if the.counts {
		return // a pipeline is refused there: TestPipeline
	}
	onAgents(t)
	a := the.author(t)
	learn := meeting + `
assert json.loads(os.environ["TF_CONFIG"])["task"]["index"] == int(index)
read = [path.read_text().strip() for path in sorted(pathlib.Path(os.environ["MUSTER_INPUT_LESSONS"]).iterdir())]
(out / "by").mkdir(exist_ok=True)
(out / "by" / index).write_text(f"{index}: {' '.join(read)}\n")
pathlib.Path("/pfs/out/both").write_text("both\n")
assert sorted(os.listdir("/pfs")) == ["lessons", "out"], os.listdir("/pfs")
assert pathlib.Path("/pfs/lessons/a").read_text() == "one\n"
`
	a.says("created", "data", "create", "lessons")
	a.put("lessons", map[string]string{"a": "one\n", "b": "two\n"})
	a.apply(fmt.Sprintf(learning, the.python, serving, learn))
	a.says("", "pipeline", "wait", "learning", "--timeout", "50s")
	a.says("both\n0: one two\n1: one two\nserved\n", "data", "cat", "learning-tell:/all")
	if diff := cmp.Diff(map[string]int64{"train": 1, "tell": 1}, a.computed("learning")); diff != "" {
		t.Error(diff)
	}
	a.put("lessons", map[string]string{"c": "three\n"})
	a.says("", "pipeline", "wait", "learning", "--timeout", "50s")
	a.says("0: one two three\n1: one two three\n", "data", "cat", "learning-tell:/all")
}

// moving is what members run of whom the first ends at once, and the second once it is
// told to by a file, or has waited for long.
const moving = `
import os, pathlib, time
index, out = os.environ["INDEX"], pathlib.Path(os.environ["MUSTER_OUTPUT"])
(out / index).write_text(index + "\n")
until = time.monotonic() + (40 if index == "1" else 0)
while time.monotonic() < until and not (out / "go").exists():
    time.sleep(0.1)
`

// TestPipelineTrainingMoves: the manager that gave out a stage's files is gone, and its
// disk with it, after one member has ended and before the other has. Nothing is run
// again.
func TestPipelineTrainingMoves(t *testing.T) {
	if !the.apart {
		return // Muster's disk is that of the machine
	}
	a := the.author(t)
	a.says("created", "data", "create", "lessons")
	a.put("lessons", map[string]string{"a": "one\n"})
	text := strings.Replace(fmt.Sprintf(learning, the.python, "", moving), `      - {name: ps, command: [python, -c, ""]}`+"\n", "", 1)
	a.apply(text)
	pods := func(format string) string {
		return the.kubectl(t, "", "get", "pods", "-n", a.namespace, "-l", "muster.dev/role=worker", "-o", "jsonpath="+format).Stdout
	}
	var before string
	harness.Eventually(t, within, "waiting for the first member to end", func() error {
		before = pods(`{range .items[*]}{.metadata.name} {.metadata.uid} {.status.phase}{"\n"}{end}`)
		if !strings.Contains(before, " Succeeded") || !strings.Contains(before, " Running") {
			return fmt.Errorf("%s", before)
		}
		return nil
	})
	if r := the.kubectl(t, "", "delete", "pod", "-n", "muster-system", "-l", "app.kubernetes.io/component=manager", "--now"); r.Code != 0 || !strings.Contains(r.Stdout, "deleted") {
		t.Fatalf("deleting the manager: %s%s", r.Stdout, r.Stderr)
	}
	name := strings.Fields(before)[0]
	name = strings.TrimRight(name, "01") + "1"
	harness.Eventually(t, within, "waiting for another manager", func() error {
		r := the.kubectl(t, "", "get", "pods", "-n", "muster-system", "-l", "app.kubernetes.io/component=manager", "-o", `jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}`)
		if r.Stdout != "True" {
			return fmt.Errorf("%s%s", r.Stdout, r.Stderr)
		}
		return nil
	})
	if r := the.kubectl(t, "", "exec", "-n", a.namespace, name, "--", "sh", "-c", "touch /muster/datum/out/go"); r.Code != 0 {
		t.Logf("telling the second member to end, which does so by itself: %s", r.Stderr)
	}
	a.finishes("learning", 2*time.Minute)
	a.says("0\n1\n", "data", "cat", "learning-tell:/all")
	if run := a.lastRun("learning"); run.Stages[0].GPUSeconds == nil {
		t.Errorf("nobody says for how long GPUs were held: %+v", run)
	}
	for _, line := range strings.Split(strings.TrimSpace(before), "\n") {
		uid := strings.Fields(line)[1]
		if now := pods(`{.items[*].metadata.uid}`); !strings.Contains(now, uid) {
			t.Errorf("a member was run again: before %s, now %s", before, now)
		}
	}
}

// TestPipelineTrainingFails: a member that fails fails the stage in words, and so do,
// where members share no folder, two that write one path.
func TestPipelineTrainingFails(t *testing.T) {
	if the.counts {
		return // a pipeline is refused there: TestPipeline
	}
	onAgents(t)
	for name, c := range map[string]struct{ line, says string }{
		"one fails":   {`sys.exit(3 * int(index))`, "worker-1"},
		"at one path": {`(out / "model").write_text(index)`, "members worker/0 and worker/1 both wrote model"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "at one path" && !the.apart {
				return // they share one folder, in which the last one has written it
			}
			a := the.author(t)
			a.says("created", "data", "create", "lessons")
			a.put("lessons", map[string]string{"a": "one\n"})
			a.apply(fmt.Sprintf(learning, the.python, serving, meeting+c.line))
			harness.Eventually(t, within, "waiting for the run to fail", func() error {
				r := a.muster("pipeline", "runs", "learning")
				if !strings.Contains(r.Stdout, "Failed") {
					return fmt.Errorf("%s%s", r.Stdout, r.Stderr)
				}
				return nil
			})
			r := a.muster("pipeline", "runs", "learning", "-o", "json")
			if !strings.Contains(r.Stdout, c.says) {
				t.Errorf("%s%s, want words with %q", r.Stdout, r.Stderr, c.says)
			}
		})
	}
}
