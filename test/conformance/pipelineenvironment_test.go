//go:build conformance

package conformance

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/test/e2e/harness"
)

// packed is a pipeline whose stages import a package: workers, and the member of a job.
const packed = `metadata: {name: packed}
spec:
  environment: %s
  stages:
  - name: tell
    input: {dataset: things, glob: "/*"}
    command: [python, -c, 'import os, slowly; open(os.environ["MUSTER_OUTPUT"] + "/" + os.environ["MUSTER_DATUM"], "w").write(slowly.WORD)']
  - name: train
    input: {stage: tell}
    training:
      framework: None
      checkpoints: {none: true}
      backoffLimit: 0
      roles:
      - {name: worker, command: [python, -c, 'import os, slowly; open(os.environ["MUSTER_OUTPUT"] + "/all", "w").write("trained by " + slowly.WORD)']}
`

// packedSpark is a stage whose driver and executor import it, too.
const packedSpark = `  - name: count
    input: {dataset: things}
    environment: {image: %q, requirements: %q}
    spark: {script: count.py, executors: 1, resources: {requests: {cpu: 100m, memory: 512Mi}}, driverResources: {requests: {cpu: 100m, memory: 512Mi}}}
`

const countPackage = `
import os, slowly
from pyspark.sql import SparkSession

def imported(_):
    import slowly
    return slowly.WORD

context = SparkSession.builder.getOrCreate().sparkContext
words = [slowly.WORD.strip(), *(word.strip() for word in context.parallelize([1], 1).map(imported).collect())]
open(os.environ["MUSTER_OUTPUT"] + "/all", "w").write(" and ".join(words) + "\n")
`

// index serves the package in two versions, once open is closed, and counts how often it
// was fetched. It returns the lines of requirements that lead to it.
func (p *platform) index(t testing.TB, open <-chan struct{}) (lines string, fetched *atomic.Int32) {
	t.Helper()
	wheels := map[string][]byte{}
	links := ""
	for _, version := range []string{"1", "2"} {
		file := "slowly-" + version + "-py3-none-any.whl"
		wheels["/"+file] = harness.Wheel(t, "slowly", version, "WORD = 'version "+version+"\\n'\n")
		links += fmt.Sprintf("<a href=%q>%[1]s</a>", file)
	}
	fetched = &atomic.Int32{}
	address := p.serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, is := wheels[r.URL.Path]
		if !is {
			w.Header().Set("Content-Type", "text/html")
			_, _ = fmt.Fprintf(w, "<!DOCTYPE html><html><body>%s</body></html>", links)
			return
		}
		fetched.Add(1)
		select {
		case <-open:
			_, _ = w.Write(body)
		case <-r.Context().Done():
		}
	})
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("--no-index\n--find-links http://%s/\n--trusted-host %s\n", address, host), fetched
}

// TestPipelineEnvironment: the packages of stages are built once, before anything is
// planned, and are there for workers and members. What they were resolved to counts for
// results: asked for in other words nothing is computed again, and another version is
// named. What cannot be built fails the run, in the installer's words.
func TestPipelineEnvironment(t *testing.T) {
	if the.counts {
		return // a pipeline is refused there: TestPipeline
	}
	onAgents(t)
	a := the.author(t)
	dir, open := t.TempDir(), make(chan struct{})
	lines, fetched := the.index(t, open)
	spark, builds := "", int32(1)
	if the.spark.Name != "" {
		spark, builds = fmt.Sprintf(packedSpark, the.spark.Name, lines+"slowly==1\n"), 2
	}
	apply := func(says, requirement string) {
		t.Helper()
		for name, text := range map[string]string{"pipeline.yaml": fmt.Sprintf(packed, the.environmentYAML(lines+requirement+"\n")) + spark, "count.py": countPackage} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		a.says(says, "pipeline", "apply", "-f", filepath.Join(dir, "pipeline.yaml"))
	}
	ran := func(tell, train, count int64) {
		t.Helper()
		a.finishes("packed", 4*time.Minute)
		want := map[string]int64{"tell": tell, "train": train}
		if the.spark.Name != "" {
			want["count"] = count
		}
		if diff := cmp.Diff(want, a.computed("packed")); diff != "" {
			t.Error(diff)
		}
	}
	a.says("created", "data", "create", "things")
	a.put("things", map[string]string{"a": "", "b": ""})
	apply("created", "slowly==1")
	harness.Eventually(t, within, "waiting until the run says that it waits", func() error {
		r := a.muster("pipeline", "runs", "packed", "-o", "json")
		if fetched.Load() == 0 || !strings.Contains(r.Stdout, "stage tell: ") || !strings.Contains(r.Stdout, "environment: ") {
			return fmt.Errorf("%s%s", r.Stdout, r.Stderr)
		}
		return nil
	})
	close(open)
	ran(2, 1, 1)
	a.says("version 1\n", "data", "cat", "packed-tell:/a")
	a.says("trained by version 1\n", "data", "cat", "packed-train:/all")
	if the.spark.Name != "" {
		a.says("version 1 and version 1\n", "data", "cat", "packed-count:/all")
	}
	if n := fetched.Load(); n != builds {
		t.Errorf("the package was fetched %d times, want %d", n, builds)
	}
	apply("", "slowly<2")
	ran(0, 0, 0)
	apply("", "slowly>1")
	ran(2, 1, 0)
	a.says("trained by version 2\n", "data", "cat", "packed-train:/all")
	a.says("environment: slowly: 1 -> 2", "pipeline", "explain", "packed", "tell")
	apply("", "nothing-of-this-name==1.2")
	harness.Eventually(t, within, "waiting until the run has failed", func() error {
		r := a.muster("pipeline", "runs", "packed", "-o", "json")
		if !strings.Contains(r.Stdout, "No matching distribution found for nothing-of-this-name==1.2") {
			return fmt.Errorf("%s%s", r.Stdout, r.Stderr)
		}
		return nil
	})
}
