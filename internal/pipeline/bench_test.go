package pipeline

import (
	"fmt"
	"testing"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/backend"
)

// many is a stage of so many datums that has run once.
func many(b *testing.B, bytes backend.Backend, datums int) (*runner, map[string]string) {
	b.Helper()
	w := openWorld(b, bytes)
	files := map[string]string{}
	for i := range datums {
		files[fmt.Sprintf("d%03d/f%06d", i%100, i)] = fmt.Sprint(i)
	}
	w.put(b, "aaa", files)
	r := w.runner(b, input(v1alpha1.Input{InputSource: source("aaa", "/*/f*")}))
	r.compute = func(d *Datum, _ map[string]string) map[string]string { return map[string]string{d.Name: d.Name} }
	r.blind = true
	return r, files
}

// BenchmarkWhole: a stage of many datums from nothing, results, output and state
// included, in memory.
func BenchmarkWhole(b *testing.B) {
	const datums = 20_000
	for b.Loop() {
		b.StopTimer()
		r, _ := many(b, &backend.Memory{}, datums)
		b.StartTimer()
		if p, _ := r.run(b); len(p.Work) != datums {
			b.Fatal(len(p.Work))
		}
	}
	b.ReportMetric(datums*float64(b.N)/b.Elapsed().Seconds(), "datums/s")
}

// BenchmarkPlan: the next run after one file changed, by a process that has read
// nothing yet, from a folder. benchmarks/data has it for a million datums.
func BenchmarkPlan(b *testing.B) {
	const datums = 50_000
	bytes, err := backend.OpenFolder(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	r, _ := many(b, bytes, datums)
	r.run(b)
	for _, c := range []struct {
		name, path string
		work       int
	}{{"no datum", "notes.txt", 0}, {"one datum", "d007/f000007", 1}} {
		r.add(b, "aaa", map[string]string{c.path: "changed"}, data.CommitOptions{})
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				cold := openWorld(b, bytes)
				again := &runner{world: cold, stage: r.stage, recipe: r.recipe}
				for name, d := range r.datasets {
					cold.datasets[name] = cold.store.Dataset(r.heads[d])
				}
				if p := again.plan(b); len(p.Work) != c.work || p.Total != datums || p.Whole {
					b.Fatal(len(p.Work), p.Total, p.Why)
				}
			}
		})
	}
}

// BenchmarkFolder: one datum that is a folder of many files, of which one changed:
// they are all read.
func BenchmarkFolder(b *testing.B) {
	const count = 100_000
	w := openWorld(b, &backend.Memory{})
	files := map[string]string{}
	for i := range count {
		files[fmt.Sprintf("d/f%06d", i)] = fmt.Sprint(i)
	}
	w.put(b, "aaa", files)
	r := w.runner(b, input(v1alpha1.Input{InputSource: source("aaa", "/*")}))
	r.compute = func(d *Datum, _ map[string]string) map[string]string { return map[string]string{d.Name: d.Name} }
	r.blind = true
	r.run(b)
	w.add(b, "aaa", map[string]string{"d/f000007": "changed"}, data.CommitOptions{})
	for b.Loop() {
		if p := r.plan(b); len(p.Work) != 1 || p.Whole {
			b.Fatal(len(p.Work), p.Why)
		}
	}
	b.ReportMetric(count*float64(b.N)/b.Elapsed().Seconds(), "files/s")
}
