//go:build e2e

package e2e

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// wordCount counts words by Spark: with what came of it also which executors had a
// part in it. Where a folder is named, tasks wait until there is a file in it that
// lets them go on.
var wordCount = map[string]string{
	"p.yaml": `
metadata: {name: words}
spec:
  stages:
  - name: count
    input: {dataset: texts}
    environment: {requirements: "pyspark==4.3.0"}
    code: code
    spark:
      script: count.py
      args: [GATE]
      executors: {min: 2, max: 2}
      resources: {requests: {cpu: 250m, memory: 1Gi}}
      gpus: 1
  - name: use
    input: {stage: count, glob: "/counts/*.json"}
    command: [sh, -c, 'cat $MUSTER_INPUT_COUNT/counts/*.json > $MUSTER_OUTPUT/$(basename $MUSTER_DATUM)']
`,
	"code/count.py": `
import os, pathlib, sys, time, uuid
from pyspark.sql import SparkSession
import beside

gate = sys.argv[1]
spark = SparkSession.builder.appName("words").getOrCreate()
sc = spark.sparkContext
if gate:
    pathlib.Path(gate, "driver").write_text(sc.master)

def task(lines):
    lines = list(lines)
    if gate:
        pathlib.Path(gate, "begun-%s" % uuid.uuid4()).write_text(os.environ["INDEX"] + " " + os.environ["CUDA_VISIBLE_DEVICES"])
    while gate and not os.path.exists(os.path.join(gate, "go")):
        time.sleep(0.05)
    return [(beside.plain(w), 1) for line in lines for w in line.split()]

lines = sc.textFile(os.environ["MUSTER_INPUT_TEXTS"], 2)
counts = lines.mapPartitions(task).reduceByKey(lambda a, b: a + b, 2)
print("counted", counts.count(), "words", flush=True)
frame = spark.createDataFrame(counts.sortByKey(), "word string, n int").coalesce(1)
frame.write.json("file://" + os.environ["MUSTER_OUTPUT"] + "/counts")
`,
	"code/beside.py": `def plain(word): return word.strip(".,").lower()`,
}

// counting is a pipeline of wordCount with its own gate.
func counting(t *testing.T, gate string) string {
	t.Helper()
	files := map[string]string{}
	for name, text := range wordCount {
		files[name] = strings.ReplaceAll(text, "GATE", strconv.Quote(gate))
	}
	return filepath.Join(folder(t, files), "p.yaml")
}

// ofJob are the processes of a job's members, whoever started them.
func ofJob(job string) []harness.Started {
	return harness.AllStarted(func(p harness.Started) bool { return p.Variable("MUSTER_JOB") == job })
}

// TestSpark counts words with two executors in both tiers. Nothing of it answers
// strangers, a Muster or an executor that dies is replaced, nothing is left in the
// end, and the same again computes nothing.
func TestSpark(t *testing.T) {
	inTiers(t, costly(plainTier), func(t *testing.T, m *harness.Muster) {
		ns, ctx := m.Namespace(t), deadline(t, 8*time.Minute)
		muster := func(args ...string) harness.Result {
			t.Helper()
			return m.Run(ctx, append([]string{"-n", ns}, args...)...)
		}
		gate := t.TempDir()
		file := counting(t, gate)
		expect(t, muster("data", "create", "texts"), 0)
		expect(t, muster("data", "put", folder(t, map[string]string{"a": "One, two.\nTwo three three", "b": "Three"}), "texts"), 0)
		expect(t, muster("pipeline", "apply", "-f", file), 0)
		begun := func(n int) {
			t.Helper()
			harness.Eventually(t, 4*time.Minute, fmt.Sprintf("waiting for %d tasks", n), func() error {
				found, _ := filepath.Glob(filepath.Join(gate, "begun-*"))
				if len(found) < n {
					return fmt.Errorf("%d so far; %s", len(found), muster("pipeline", "runs", "words").Stdout)
				}
				return nil
			})
		}
		begun(2)
		run := lastRun(t, muster("pipeline", "runs", "words", "-o", "json"))
		name := run.Stages[0].Job
		checkClosed(t, name)
		// Muster dies; the job goes on, and its files stay.
		m.Kill9(t)
		if err := m.Start(ctx); err != nil {
			t.Fatal(err)
		}
		// An executor dies; its task moves.
		before := len(ofJob(name))
		for _, p := range ofJob(name) {
			if p.Variable("INDEX") == "1" && p.Variable("ROLE") == "executor" {
				_ = unix.Kill(p.PID, unix.SIGKILL)
			}
		}
		begun(3)
		if err := os.WriteFile(filepath.Join(gate, "go"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		expect(t, muster("pipeline", "wait", "words", "--timeout", "120s"), 0)
		run = lastRun(t, muster("pipeline", "runs", "words", "-o", "json"))
		if diff := cmp.Diff(map[string]int64{"count": 1, "use": 1}, run.computed()); diff != "" || run.Phase != "Succeeded" || run.Stages[0].GPUSeconds == "" {
			t.Errorf("%s: %s: %s", run.Phase, run.Message, diff)
		}
		if left := ofJob(name); len(left) > 0 || before == 0 {
			t.Errorf("of %d processes there are left: %v", before, left)
		}
		if j := job(t, m, ns, name); j.Status.Restarts == 0 || j.Status.Phase != v1alpha1.JobSucceeded {
			t.Errorf("%s, after %d restarts", j.Status.Phase, j.Status.Restarts)
		}
		// What Spark wrote, without what it writes for itself.
		listed := muster("data", "ls", "-r", "words-count").Stdout
		if !strings.Contains(listed, ".json") || strings.Contains(listed, ".crc") || strings.Contains(listed, "_SUCCESS") {
			t.Errorf("the output: %s", listed)
		}
		expect(t, muster("data", "ls", "-r", "words-use"), 0, ".json")
		expect(t, muster("pipeline", "logs", "words", "count"), 0, "counted 3 words")
		expect(t, muster("pipeline", "graph", "words"), 0, "spark count.py, 2 executors with 1 GPU each")
		expect(t, muster("pipeline", "explain", "words", "count", "--recipe"), 0, "GPUs held for", "environment/java", "environment/pyspark: 4.3.0")
		// The same in another pipeline.
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Dir(file), "again.yaml", strings.Replace(string(text), "name: words", "name: again", 1))
		expect(t, muster("pipeline", "apply", "-f", filepath.Join(filepath.Dir(file), "again.yaml")), 0)
		expect(t, muster("pipeline", "wait", "again", "--timeout", "60s"), 0)
		if again := lastRun(t, muster("pipeline", "runs", "again", "-o", "json")); again.Computed != 0 || again.Phase != "Succeeded" {
			t.Errorf("the same again computed %d datums: %s", again.Computed, again.Message)
		}
	})
}

// checkClosed asks everything that a job's processes listen at, as a stranger.
func checkClosed(t *testing.T, name string) {
	t.Helper()
	asked := 0
	for _, p := range ofJob(name) {
		for _, at := range listening(t, p.PID) {
			host, _, _ := net.SplitHostPort(at)
			if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
				t.Errorf("%s listens at every address: %s", p, at)
			}
			if said := get(at); strings.Contains(said, " 200 ") {
				t.Errorf("%s answers a stranger at %s: %.200s", p, at, said)
			}
			asked++
		}
		if secret := secretIn(p); secret != "" {
			t.Errorf("a secret is in a list of processes: %s", secret)
		}
	}
	if asked < 4 { // master, driver and two workers at least, where they can be reached
		t.Errorf("%d addresses were asked", asked)
	}
}

// secretIn is a word of a command line that is a secret.
func secretIn(p harness.Started) string {
	for _, word := range p.Command {
		if strings.Contains(word, "authenticate.secret") || strings.Contains(word, "secretKey") {
			return word
		}
	}
	return ""
}

// get is what comes back for a request for a page.
func get(at string) string {
	conn, err := net.DialTimeout("tcp", at, 2*time.Second)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(2 * time.Second))
	_, _ = io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n")
	said, _ := io.ReadAll(io.LimitReader(conn, 4096))
	return string(said)
}

// listening are the TCP addresses at which a process listens, in its network.
func listening(t *testing.T, pid int) []string {
	t.Helper()
	sockets := map[string]bool{}
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, "socket:[") {
			sockets[strings.TrimSuffix(strings.TrimPrefix(target, "socket:["), "]")] = true
		}
	}
	var out []string
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if err != nil {
			continue // it has ended
		}
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) > 9 && f[3] == "0A" && sockets[f[9]] {
				out = append(out, address(t, f[1]))
			}
		}
	}
	return out
}

// address reads one as /proc/net/tcp has it: words of the machine's byte order, in
// hexadecimal digits.
func address(t *testing.T, text string) string {
	t.Helper()
	host, port, _ := strings.Cut(text, ":")
	n, err := strconv.ParseUint(port, 16, 16)
	if err != nil {
		t.Fatal(err)
	}
	var ip net.IP
	for i := 0; i+8 <= len(host); i += 8 {
		word := []byte{}
		for k := 6; k >= 0; k -= 2 {
			b, err := strconv.ParseUint(host[i+k:i+k+2], 16, 8)
			if err != nil {
				t.Fatal(err)
			}
			word = append(word, byte(b))
		}
		ip = append(ip, word...)
	}
	return net.JoinHostPort(ip.String(), strconv.FormatUint(n, 10))
}

// TestSparkEndings: a script that fails is tried as often as its stage says and
// leaves its log; a run that is cancelled leaves no process; a Java that is none is
// said before there is a job.
func TestSparkEndings(t *testing.T) {
	m := plainTier.start(t)
	ns, ctx := m.Namespace(t), deadline(t, 6*time.Minute)
	muster := func(args ...string) harness.Result {
		t.Helper()
		return m.Run(ctx, append([]string{"-n", ns}, args...)...)
	}
	expect(t, muster("data", "create", "texts"), 0)
	expect(t, muster("data", "put", folder(t, map[string]string{"a": "One"}), "texts"), 0)
	stage := func(name, script, more string) string {
		return filepath.Join(folder(t, map[string]string{"s.py": script, "p.yaml": `
metadata: {name: ` + name + `}
spec:
  stages:
  - name: s
    input: {dataset: texts}
    environment: {requirements: "pyspark==4.3.0"}
    spark: {script: s.py, executors: 1, resources: {requests: {cpu: 250m}}}
    ` + more + "\n"}), "p.yaml")
	}
	failed := func(name string, says ...string) {
		t.Helper()
		r := muster("pipeline", "wait", name, "--timeout", "120s")
		run := lastRun(t, muster("pipeline", "runs", name, "-o", "json"))
		if r.Code == 0 || run.Phase != "Failed" {
			t.Errorf("%s: %d: %s: %s", name, r.Code, run.Phase, run.Message)
		}
		for _, words := range says {
			if !strings.Contains(run.Message, words) {
				t.Errorf("%s: nothing says %q: %s", name, words, run.Message)
			}
		}
	}
	expect(t, muster("pipeline", "apply", "-f", stage("wrong", "print('I give up'); raise SystemExit(7)", "tries: 2")), 0)
	failed("wrong", "the script s.py ended with exit code 7")
	if r := muster("pipeline", "logs", "wrong"); strings.Count(r.Stdout, "I give up") != 2 {
		t.Errorf("tried twice, it said: %s", r.Stdout)
	}
	expect(t, muster("pipeline", "apply", "-f", stage("late", "import time; time.sleep(300)", "timeout: 2s\n    tries: 1")), 0)
	failed("late", "it took longer than 2s")

	expect(t, muster("pipeline", "apply", "-f", stage("nojava", "", "env: [{name: JAVA_HOME, value: /nowhere}]")), 0)
	failed("nojava", "spark: the Java of JAVA_HOME (/nowhere) does not work")
	if run := lastRun(t, muster("pipeline", "runs", "nojava", "-o", "json")); run.Stages[0].Job != "" {
		t.Errorf("there was a job: %s", run.Stages[0].Job)
	}

	gate := t.TempDir()
	expect(t, muster("pipeline", "apply", "-f", counting(t, gate)), 0)
	harness.Eventually(t, 3*time.Minute, "waiting for a task", func() error {
		if found, _ := filepath.Glob(filepath.Join(gate, "begun-*")); len(found) > 0 {
			return nil
		}
		return fmt.Errorf("none yet: %s", muster("pipeline", "runs", "words").Stdout)
	})
	name := lastRun(t, muster("pipeline", "runs", "words", "-o", "json")).Stages[0].Job
	if all := ofJob(name); !slices.ContainsFunc(all, func(p harness.Started) bool {
		return strings.Contains(strings.Join(p.Command, " "), "CoarseGrainedExecutorBackend")
	}) {
		t.Errorf("there is no executor among %v", all)
	}
	expect(t, muster("pipeline", "cancel", "words"), 0)
	harness.Eventually(t, time.Minute, "waiting until nothing is left", func() error {
		if left := ofJob(name); len(left) > 0 {
			return fmt.Errorf("%v", left)
		}
		return nil
	})
}
