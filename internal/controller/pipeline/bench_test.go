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
