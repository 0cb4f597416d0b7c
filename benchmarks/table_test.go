//go:build e2e

package benchmarks

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
)

// row is one line of the table.
type row struct {
	what, target string
	samples      []float64
	unit         string
	// figure picks from the sorted samples; default the median.
	figure func(sorted []float64) float64
	limit  float64
	note   string
}

// table collects the rows of all benchmarks.
var table = struct {
	sync.Mutex
	rows []row
}{}

// report adds a row.
func report(t *testing.T, r row) {
	t.Helper()
	if len(r.samples) == 0 {
		t.Fatalf("%s: no samples", r.what)
	}
	if r.figure == nil {
		r.figure = median
	}
	table.Lock()
	defer table.Unlock()
	table.rows = append(table.rows, r)
}

func median(sorted []float64) float64 { return sorted[len(sorted)/2] }

// percentile returns the value below which the share p of the samples lies.
func percentile(p float64) func([]float64) float64 {
	return func(sorted []float64) float64 { return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))] }
}

func printTable() {
	if len(table.rows) == 0 {
		return
	}
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "what\tmeasured\tmin\tmax\tn\ttarget\tmet\tnote")
	for _, r := range table.rows {
		slices.Sort(r.samples)
		value := r.figure(r.samples)
		met := "yes"
		if value > r.limit {
			met = "NO"
		}
		number := func(v float64) string { return strings.TrimSpace(fmt.Sprintf("%.4g %s", v, r.unit)) }
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", r.what, number(value), number(r.samples[0]), number(r.samples[len(r.samples)-1]), len(r.samples), r.target, met, r.note)
	}
	_ = w.Flush()
	fmt.Print("\n" + text.String())
}

func TestMain(m *testing.M) {
	code := m.Run()
	printTable()
	os.Exit(code)
}
