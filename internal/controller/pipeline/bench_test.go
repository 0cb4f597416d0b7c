package pipeline

import (
	"fmt"
	"testing"
	"time"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// BenchmarkDatums computes trivial datums, a program for each, from the commit to
// the output's; without an API server and without starting a job.
func BenchmarkDatums(b *testing.B) {
	const n = 2000
	for b.Loop() {
		r := newRig(b, nil)
		files := map[string]string{}
		for i := range n {
			files[fmt.Sprintf("%05d", i)] = fmt.Sprint(i)
		}
		r.put("things", files)
		r.apply(`
metadata: {name: many}
spec: {stages: [{name: copy, input: {dataset: things, glob: "/*"}, command: [cp, -r, $(MUSTER_INPUT_THINGS)/., $(MUSTER_OUTPUT)], parallelism: {max: 2}}]}
`)
		begin := time.Now()
		run := r.finish("many")
		if run.Status.Phase != v1alpha1.RunSucceeded {
			b.Fatal(run.Status.Message)
		}
		b.ReportMetric(float64(n)/time.Since(begin).Seconds(), "datums/s")
	}
}

// BenchmarkNothing is a commit that concerns nobody, through four stages, without
// an API server.
func BenchmarkNothing(b *testing.B) {
	r := newRig(b, nil)
	r.put("things", map[string]string{"a.txt": "1"})
	r.apply(`
metadata: {name: four}
spec:
  stages:
  - {name: a, input: {dataset: things, glob: "/*.txt"}, command: [cp, -r, $(MUSTER_INPUT_THINGS)/., $(MUSTER_OUTPUT)]}
  - {name: b, input: {stage: a, glob: "/*"}, command: [cp, -r, $(MUSTER_INPUT_A)/., $(MUSTER_OUTPUT)]}
  - {name: c, input: {stage: b, glob: "/*"}, command: [cp, -r, $(MUSTER_INPUT_B)/., $(MUSTER_OUTPUT)]}
  - {name: d, input: {stage: c, glob: "/*"}, command: [cp, -r, $(MUSTER_INPUT_C)/., $(MUSTER_OUTPUT)]}
`)
	r.finish("four")
	n := 0
	for b.Loop() {
		n++
		r.put("things", map[string]string{"other": fmt.Sprint(n)})
		begin := time.Now()
		run := r.step(r.look("four").Status.LastRun)
		b.ReportMetric(float64(time.Since(begin).Milliseconds()), "ms/run")
		if run.Status.Phase != v1alpha1.RunSucceeded || run.Status.Stages[3].Datums.Computed != 0 {
			b.Fatalf("%+v", run.Status)
		}
		r.finish("four")
	}
}
