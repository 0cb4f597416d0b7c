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

// growing is a pipeline whose Spark stage grows into what is idle, with a stage that reads
// what the executors wrote.
const growing = `metadata: {name: grows}
spec:
  stages:
  - name: count
    input: {dataset: texts}
    environment: {image: %q}
    spark:
      script: count.py
      executors: {min: 1, max: 2}
      gpus: 1
      resources: {requests: {cpu: 100m, memory: 512Mi}}
      driverResources: {requests: {cpu: 100m, memory: 512Mi}}
  - name: use
    input: {stage: count}
    environment: {image: %q}
    command: [sh, -c, 'cd $MUSTER_INPUT_COUNT; (ls map | sort -n; ls part | sort -n; cat map/* | sort -u) | tr "\n" " " > $MUSTER_OUTPUT/all']
`

// countSlowly has a task for each of many partitions, which says who did it; what they
// find is read by others, so that it has to outlive its executor. It goes on until there
// are two executors, and for a while then.
const countSlowly = `
import os, pathlib, time
from pyspark.sql import SparkSession

output = pathlib.Path(os.environ["MUSTER_OUTPUT"])
context = SparkSession.builder.appName("grows").getOrCreate().sparkContext

def write(folder, index, text):
    (output / folder).mkdir(exist_ok=True)
    with open(output / folder / str(index), "x") as file: # once, whoever does it
        file.write(text)

def first(index, rows):
    time.sleep(1)
    write("map", index, os.environ["INDEX"] + "\n")
    return [(key, 1) for key in range(4)]

def second(index, rows):
    write("part", index, str(sum(n for _, n in rows)))
    return [index]

while context._jsc.sc().getExecutorMemoryStatus().size() < 3: # with the driver
    time.sleep(0.2)
counts = context.parallelize(range(48), 48).mapPartitionsWithIndex(first).reduceByKey(lambda a, b: a + b, 4)
print("parts", counts.mapPartitionsWithIndex(second).collect(), flush=True)
`

// TestPipelineSparkGrows: an executor that a stage can do without comes where there is
// room, goes when somebody waits for that, and leaves what it wrote and what others will
// read of it: no task runs twice, no file is missing, and nobody begins anew.
func TestPipelineSparkGrows(t *testing.T) {
	if the.spark.Name == "" {
		return // on one machine executors share their files
	}
	onAgents(t)
	a := the.author(t)
	a.says("created", "data", "create", "texts")
	a.put("texts", map[string]string{"text": "one\n"})
	a.applyBeside("count.py", countSlowly, fmt.Sprintf(growing, the.spark.Name, the.image))
	harness.Eventually(t, 5*time.Minute, "waiting until the second executor has written something", func() error {
		pods := the.kubectl(t, "", "get", "pods", "-n", a.namespace, "-l", "muster.dev/role=executor,muster.dev/index=1", "-o", "jsonpath={.items[*].metadata.name}").Stdout
		if name, more, _ := strings.Cut(pods, " "); name == "" || more != "" {
			return fmt.Errorf("there is %q", pods)
		}
		if r := the.kubectl(t, "", "exec", "-n", a.namespace, pods, "--", "sh", "-c", "ls /muster/datum/out/map | grep -q ."); r.Code != 0 {
			return fmt.Errorf("%s has written nothing: %s; %s", pods, r.Stderr, the.kubectl(t, "", "logs", "-n", a.namespace, pods, "--tail", "20").Stdout)
		}
		return nil
	})
	the.holding(t, a.namespace, "comes", 3, 1, "")
	the.until(t, a.namespace, "comes", v1alpha1.JobRunning)
	a.finishes("grows", 4*time.Minute)
	a.says(counted(48)+counted(4)+"0 1 ", "data", "cat", "grows-use:/all")
	var jobs v1alpha1.TrainingJobList
	if err := the.api.List(t.Context(), &jobs, client.InNamespace(a.namespace), client.MatchingLabels{v1alpha1.LabelStage: "count"}); err != nil {
		t.Fatal(err)
	}
	for i := range jobs.Items {
		if s := &jobs.Items[i].Status; s.Restarts != 0 || !strings.Contains(strings.Join(s.GivenBack, " "), "executor-1 for ") {
			t.Errorf("%s began anew %d times, and gave back %q", jobs.Items[i].Name, s.Restarts, s.GivenBack)
		}
	}
	if len(jobs.Items) != 1 {
		t.Errorf("%d jobs", len(jobs.Items))
	}
}

// counted are the numbers below another one, in order.
func counted(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "%d ", i)
	}
	return text.String()
}
