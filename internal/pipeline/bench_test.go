package pipeline

import (
	"fmt"
	"testing"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// BenchmarkWhole: a stage of many datums from nothing, results, output and state
// included.
func BenchmarkWhole(b *testing.B) {
	const datums = 20_000
	for b.Loop() {
		w := newWorld(b)
		files := map[string]string{}
		for i := range datums {
			files[fmt.Sprintf("d%03d/f%05d", i%100, i)] = fmt.Sprint(i)
		}
		w.put(b, "aaa", files)
		r := w.runner(b, input(v1alpha1.Input{InputSource: source("aaa", "/*/*")}))
		r.compute = func(d *Datum, _ map[string]string) map[string]string { return map[string]string{d.Name: d.Name} }
		r.blind = true
		if p, _ := r.run(b); len(p.Work) != datums {
			b.Fatal(len(p.Work))
		}
	}
	b.ReportMetric(datums*float64(b.N)/b.Elapsed().Seconds(), "datums/s")
}
