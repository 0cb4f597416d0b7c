//go:build conformance

package conformance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// counting is a pipeline that counts words by Spark, with a stage that reads what the
// executors wrote.
const counting = `metadata: {name: words}
spec:
  stages:
  - name: count
    input: {dataset: texts}
    environment: {image: %q}
    mountPath: /words
    spark:
      script: count.py
      executors: 2
      resources: {requests: {cpu: 100m, memory: 512Mi}}
      driverResources: {requests: {cpu: 100m, memory: 512Mi}}
  - name: use
    input: {stage: count}
    environment: {image: %q}
    command: [sh, -c, 'cd $MUSTER_INPUT_COUNT; (cat counts/*.json | sort; cat by/* | sort; ls by; find . -name "_*" -o -name ".*.crc") > $MUSTER_OUTPUT/all']
`

// countWords writes what it counts both as Spark does and by itself, by two tasks of
// which each has an executor. Then it waits, if the input says so, until there is a file
// that lets it end.
const countWords = `
import os, pathlib, time
from pyspark import BarrierTaskContext
from pyspark.sql import SparkSession, functions

source, output = pathlib.Path("/words/texts"), pathlib.Path("/words/out")
datum = pathlib.Path(os.environ["MUSTER_OUTPUT"]).parent
spark = SparkSession.builder.appName("words").config("spark.sql.shuffle.partitions", 2).getOrCreate()
lines = spark.read.text("file://%s/text-*" % source)
words = lines.select(functions.explode(functions.split("value", " ")).alias("word"))
words.groupBy("word").count().write.json("file://%s/counts" % output)

def write(rows):
    BarrierTaskContext.get().barrier()
    (output / "by").mkdir(exist_ok=True)
    (output / "by" / os.environ["INDEX"]).write_text("".join(f"{row.word}\n" for row in rows))
    yield 1

parts = words.distinct().repartition(2).rdd.barrier().mapPartitions(write).count()
print(f"written by {parts} tasks", flush=True)
while (source / "wait").exists() and not (datum / "go").exists():
    time.sleep(0.1)
`

// TestPipelineSpark: a driver and two executors that share no folder, on whatever node
// they are, each with the datum at the stage's mountPath; what each wrote becomes one commit. An executor that is lost takes what it
// wrote along, and all of it is written again.
func TestPipelineSpark(t *testing.T) {
	if the.spark.Name == "" {
		return // on one machine it is that of the tests end to end
	}
	onAgents(t)
	a := the.author(t)
	a.says("created", "data", "create", "texts")
	a.put("texts", map[string]string{"text-a": "one two\n", "text-b": "two\n", "text-c": "three\n", "wait": ""})
	a.applyBeside("count.py", countWords, fmt.Sprintf(counting, the.spark.Name, the.image))
	members := func() (driver, executor string) {
		of := func(role, index string) string {
			r := the.kubectl(t, "", "get", "pods", "-n", a.namespace, "-l", "muster.dev/role="+role+",muster.dev/index="+index, "--field-selector", "status.phase=Running",
				"-o", `jsonpath={range .items[*]}{.metadata.name} {.metadata.uid}{"\n"}{end}`)
			return r.Stdout
		}
		return of("driver", "0"), of("executor", "1")
	}
	inside := func(pod string, command ...string) harness.Result {
		name, _, _ := strings.Cut(pod, " ")
		return the.kubectl(t, "", append([]string{"exec", "-n", a.namespace, name, "--"}, command...)...)
	}
	// waiting waits until an executor that is not this one has written its part.
	waiting := func(before string) (driver, executor string) {
		harness.Eventually(t, 8*time.Minute, "waiting for an executor to have written", func() error {
			driver, executor = members()
			if driver == "" || executor == "" || executor == before || strings.Count(executor, "\n") != 1 {
				return fmt.Errorf("there are %q and %q", driver, executor)
			}
			if r := inside(executor, "test", "-e", "/muster/datum/out/by/1"); r.Code != 0 {
				name, _, _ := strings.Cut(driver, " ")
				return fmt.Errorf("%s has written nothing yet: %s; the driver says %s", executor, r.Stderr, the.kubectl(t, "", "logs", "-n", a.namespace, name, "--tail", "20").Stdout)
			}
			return nil
		})
		return driver, executor
	}
	_, lost := waiting("")
	name, _, _ := strings.Cut(lost, " ")
	if r := the.kubectl(t, "", "delete", "pod", "-n", a.namespace, name, "--now"); r.Code != 0 {
		t.Fatalf("deleting an executor: %s%s", r.Stdout, r.Stderr)
	}
	driver, _ := waiting(lost)
	if r := inside(driver, "touch", "/muster/datum/go"); r.Code != 0 {
		t.Fatalf("letting the script end: %s%s", r.Stdout, r.Stderr)
	}
	a.finishes("words", 2*time.Minute)
	a.says(`{"word":"one","count":1}
{"word":"three","count":1}
{"word":"two","count":2}
one
three
two
0
1
`, "data", "cat", "words-use:/all")
	a.says("written by 2 tasks", "pipeline", "logs", "words", "count")
	var jobs v1alpha1.TrainingJobList
	if err := the.api.List(t.Context(), &jobs, client.InNamespace(a.namespace), client.MatchingLabels{v1alpha1.LabelStage: "count"}); err != nil {
		t.Fatal(err)
	}
	restarts := int32(0)
	for i := range jobs.Items {
		restarts += jobs.Items[i].Status.Restarts
	}
	if restarts != 1 {
		t.Errorf("its jobs began anew %d times, want once", restarts)
	}
}
