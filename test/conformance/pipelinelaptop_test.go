//go:build conformance

package conformance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/cluster"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// carried is a pipeline of all kinds of stages: a datum at a time, code that comes along,
// packages on top of the image and a variable from a Secret, a job that trains, and Spark.
const carried = `metadata: {name: carried}
spec:
  environment: {image: %q}
  stages:
  - name: upper
    input: {dataset: words, glob: "/*"}
    gpus: 1
    command: [sh, -c, 'echo computing $MUSTER_DATUM; tr a-z A-Z < $(ls $MUSTER_INPUT_WORDS/*) > $MUSTER_OUTPUT/$MUSTER_DATUM']
  - name: all
    input: {stage: upper}
    code: all.sh
    command: [sh, all.sh]
  - name: count
    input: {stage: upper, glob: "/*"}
    environment: {image: %[1]q, requirements: %q}
    env: [{name: TOKEN, valueFrom: {secretKeyRef: {name: token, key: key}}}]
    command: [python3, -c, 'import os, slowly; open(os.environ["MUSTER_OUTPUT"] + "/" + os.environ["MUSTER_DATUM"], "w").write(os.environ["TOKEN"] + ", " + slowly.WORD)']
  - name: train
    input: {stage: all}
    training:
      framework: None
      checkpoints: {none: true}
      roles: [{name: worker, gpus: 1, command: [sh, -c, 'tr O 0 < $MUSTER_INPUT_ALL/all > $MUSTER_OUTPUT/model']}]
  - name: words
    input: {dataset: words}
    environment: {image: %[1]q, requirements: %[2]q}
    code: words.py
    spark: {script: words.py, executors: 1, resources: {requests: {cpu: 100m, memory: 512Mi}}, driverResources: {requests: {cpu: 100m, memory: 512Mi}}}
`

// lettersOfWords says how many letters words have, by a task for each file.
const lettersOfWords = `
import os, pathlib, slowly
from pyspark.sql import SparkSession

source, output = pathlib.Path(os.environ["MUSTER_INPUT_WORDS"]), pathlib.Path(os.environ["MUSTER_OUTPUT"])
context = SparkSession.builder.getOrCreate().sparkContext

def count(name):
    (output / name).write_text(str(len((source / name).read_text().strip())) + ", " + slowly.WORD)

names = sorted(p.name for p in source.iterdir())
context.parallelize(names, len(names)).foreach(count)
`

// laptop starts an embedded Muster whose machine has the image for Spark, and else nothing in
// common with the platform.
func (p *platform) laptop(t *testing.T) *platform {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	containerd, err := cluster.StartRuntime(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := containerd.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := containerd.Import(ctx, "muster", p.spark); err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	settings := "apiVersion: config.muster.dev/v1alpha1\nkind: Embedded\ncontainerd: " + containerd.Socket + "\n"
	if err := os.WriteFile(filepath.Join(home, "config.yaml"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := harness.Up(ctx, home, "--tier", "plain", "--simulate-gpus", "1xA100")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := m.Down(ctx); err != nil {
			t.Error(err)
		}
	})
	laptop := &platform{kubeconfig: m.Kubeconfig()}
	if err := laptop.connect(); err != nil {
		t.Fatal(err)
	}
	return laptop
}

// TestPipelineResultsOfALaptop: what one machine computed counts on a cluster, and what
// the cluster computed on the machine, wherever that ran in the same image with the same
// packages; both make the same of it. What differs is computed, and named.
func TestPipelineResultsOfALaptop(t *testing.T) {
	if the.spark.Name == "" {
		return // it is no cluster with an image that both can have
	}
	onAgents(t)
	open := make(chan struct{})
	close(open)
	lines, _ := the.index(t, open)
	text := fmt.Sprintf(carried, the.spark.Name, lines+"slowly==1\n")
	laptop, server := the.laptop(t).author(t), the.author(t)
	ran := func(a *author, want map[string]int64) {
		t.Helper()
		a.finishes("carried", 4*time.Minute)
		if diff := cmp.Diff(want, a.computed("carried")); diff != "" {
			r := a.muster("pipeline", "explain", "carried")
			t.Errorf("computed: %s%s%s", diff, r.Stdout, r.Stderr)
		}
	}
	begin := func(a *author, text, token string, letters map[string]string) {
		t.Helper()
		a.keep(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: "token", Annotations: map[string]string{v1alpha1.AnnotationCountsAs: "spring"}},
			Data:       map[string][]byte{"key": []byte(token)},
		})
		a.says("created", "data", "create", "words")
		a.put("words", letters)
		a.applyAmong(map[string]string{"all.sh": allCode, "words.py": lettersOfWords}, text)
		a.rights()
	}
	nothing := map[string]int64{"upper": 0, "all": 0, "count": 0, "train": 0, "words": 0}

	letters := map[string]string{"a": "one\n", "b": "two\n"}
	begin(laptop, text, "key of the laptop", letters)
	ran(laptop, map[string]int64{"upper": 2, "all": 1, "count": 2, "train": 1, "words": 1})
	archive := filepath.Join(t.TempDir(), "carried.tar")
	laptop.says("7 results", "pipeline", "results", "export", "carried", archive)

	server.says("7 results of pipeline carried taken", "pipeline", "results", "import", archive)
	begin(server, text, "key of the cluster", letters)
	ran(server, nothing)
	server.says("0NE\nTW0\n", "data", "cat", "carried-train:/model")
	server.says("key of the laptop, version 1\n", "data", "cat", "carried-count:/b")
	server.says("3, version 1\n", "data", "cat", "carried-words:/b")

	letters["c"] = "four\n"
	server.put("words", letters)
	ran(server, map[string]int64{"upper": 1, "all": 1, "count": 1, "train": 1, "words": 1})
	back := filepath.Join(t.TempDir(), "back.tar")
	server.says("", "pipeline", "results", "export", "carried", back)
	laptop.says("5 results of pipeline carried taken", "pipeline", "results", "import", back)
	laptop.put("words", letters)
	ran(laptop, nothing)
	laptop.says("0NE\nTW0\nF0UR\n", "data", "cat", "carried-train:/model")
	laptop.says("key of the cluster, version 1\n", "data", "cat", "carried-count:/c")
	laptop.says("4, version 1\n", "data", "cat", "carried-words:/c")

	other := the.author(t)
	other.says("results of pipeline carried taken", "pipeline", "results", "import", archive)
	begin(other, strings.ReplaceAll(text, "slowly==1", "slowly==2"), "another", map[string]string{"a": "one\n", "b": "two\n"})
	ran(other, map[string]int64{"upper": 0, "all": 0, "count": 2, "train": 0, "words": 1})
	other.says("slowly: 1 -> 2", "pipeline", "explain", "carried", "count")
}
