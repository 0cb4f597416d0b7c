//go:build e2e && cluster

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/test/cluster"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// boxedWords is a Spark stage in an image, with one that reads what it wrote.
const boxedWords = `metadata: {name: words}
spec:
  stages:
  - name: count
    input: {dataset: texts}
    environment: {image: %q}
    code: count.py
    mountPath: /words
    spark:
      script: count.py
      executors: 2
      gpus: 1
      resources: {requests: {cpu: 250m, memory: 512Mi}}
      driverResources: {requests: {cpu: 100m, memory: 512Mi}}
  - name: use
    input: {stage: count}
    command: [sh, -c, 'cat $MUSTER_INPUT_COUNT/counts/*.json | sort > $MUSTER_OUTPUT/all']
`

// boxedCount counts words by Spark, and shows that it sees the image's files and a GPU, not
// the machine's.
const boxedCount = `
import os, pathlib
from pyspark.sql import SparkSession, functions

assert not pathlib.Path("/usr/share/doc").exists(), "these are the files of the machine"
spark = SparkSession.builder.appName("words").config("spark.sql.shuffle.partitions", 2).getOrCreate()
lines = spark.read.text("file:///words/texts")
words = lines.select(functions.explode(functions.split("value", " ")).alias("word"))
words.groupBy("word").count().coalesce(1).write.json("file:///words/out/counts")
assert any(pathlib.Path(os.environ["MUSTER_OUTPUT"], "counts").glob("*.json")), "it is elsewhere"
gpus = spark.sparkContext.parallelize(range(8), 8).map(lambda _: os.environ["MUSTER_GPUS"]).distinct().collect()
print("GPUs", len(gpus), flush=True)
`

// TestSparkInImages: driver and executors see the files of their image, and the datum's
// folder at the stage's mountPath, in both tiers; the same image computes nothing again, and one that lacks what
// Spark takes says so.
func TestSparkInImages(t *testing.T) {
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
	image, err := cluster.Spark(ctx)
	if err != nil {
		t.Fatal(err)
	}
	box, err := cluster.Busybox(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, have := range []cluster.Image{image, box} {
		if err := containerd.Import(ctx, "muster", have); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range costly(isolatedTier) {
		t.Run(x.name, func(t *testing.T) {
			m := muster(t, x, "containerd: "+containerd.Socket+"\n")
			countInImages(t, m, image.Name)
			lacksSpark(t, m, box.Name)
		})
	}
}

func countInImages(t *testing.T, m *harness.Muster, image string) {
	ns, ctx := m.Namespace(t), deadline(t, 4*time.Minute)
	muster := func(args ...string) harness.Result {
		t.Helper()
		return m.Run(ctx, append([]string{"-n", ns}, args...)...)
	}
	file := folder(t, map[string]string{"p.yaml": fmt.Sprintf(boxedWords, image), "count.py": boxedCount}) + "/p.yaml"
	expect(t, muster("data", "create", "texts"), 0)
	expect(t, muster("data", "put", folder(t, map[string]string{"a": "one two\n", "b": "two\n"}), "texts"), 0)
	expect(t, muster("pipeline", "apply", "-f", file), 0)
	if r := muster("pipeline", "wait", "words", "--timeout", "200s"); r.Code != 0 {
		t.Fatalf("%s%s", r.Stderr, muster("pipeline", "logs", "words", "count").Stdout)
	}
	expect(t, muster("data", "cat", "words-use:/all"), 0, `{"word":"one","count":1}`, `{"word":"two","count":2}`)
	expect(t, muster("pipeline", "logs", "words", "count"), 0, "GPUs 2")
	expect(t, muster("pipeline", "explain", "words", "count", "--recipe"), 0, "environment/image: sha256:", "GPUs held for", "idle for")
	expect(t, muster("pipeline", "rerun", "words"), 0)
	expect(t, muster("pipeline", "wait", "words", "--timeout", "60s"), 0)
	if diff := cmp.Diff(map[string]int64{"count": 0, "use": 0}, lastRun(t, muster("pipeline", "runs", "words", "-o", "json")).computed()); diff != "" {
		t.Errorf("the same again: %s", diff)
	}
}

func lacksSpark(t *testing.T, m *harness.Muster, image string) {
	ns, ctx := m.Namespace(t), deadline(t, 2*time.Minute)
	file := folder(t, map[string]string{"p.yaml": fmt.Sprintf(boxedWords, image), "count.py": boxedCount}) + "/p.yaml"
	expect(t, m.Run(ctx, "-n", ns, "data", "create", "texts"), 0)
	expect(t, m.Run(ctx, "-n", ns, "data", "put", folder(t, map[string]string{"a": "one\n"}), "texts"), 0)
	expect(t, m.Run(ctx, "-n", ns, "pipeline", "apply", "-f", file), 0)
	r := m.Run(ctx, "-n", ns, "pipeline", "wait", "words", "--timeout", "90s")
	if r.Code == 0 {
		t.Fatal("Spark ran without a Python")
	}
	expect(t, m.Run(ctx, "-n", ns, "pipeline", "runs", "words"), 0, "looking for pyspark", "python")
}
