package simulate

import (
	"math"

	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/terminal"
	simulation "github.com/muster-dev/muster/internal/simulate"
)

// Document is what `muster simulate -o json` prints for jobs that come and go.
type Document struct {
	// Trace is philly or synthetic, File the file as it was named, From and To
	// the window as it was given.
	Trace string `json:"trace"`
	File  string `json:"file,omitempty"`
	From  string `json:"from,omitempty"`
	To    string `json:"to,omitempty"`
	// Jobs is how many there are, and Load the share of the cluster that they
	// need while they arrive: of the first seed, where each makes its own.
	Jobs int     `json:"jobs"`
	Load float64 `json:"load"`
	// Nodes and GPUsPerNode are the cluster.
	Nodes       int `json:"nodes"`
	GPUsPerNode int `json:"gpusPerNode"`
	// Limits is what jobs declared about their run time, and LimitsMeaning
	// that in words.
	Limits        string `json:"limits"`
	LimitsMeaning string `json:"limitsMeaning"`
	// RestartCost is what a preempted job ran longer, in seconds.
	RestartCost float64 `json:"restartCostSeconds"`
	// Results are by seed, and by policy in the order that was asked for.
	Results []*simulation.Report `json:"results"`
	// Summary are means over the seeds, by policy, where there are several.
	Summary []Summary `json:"summary,omitempty"`
}

// Summary is a policy's means over the seeds.
type Summary struct {
	Policy      string  `json:"policy"`
	Seeds       int     `json:"seeds"`
	MeanJCT     float64 `json:"meanJCTHours"`
	P50JCT      float64 `json:"p50JCTHours"`
	P90JCT      float64 `json:"p90JCTHours"`
	P99JCT      float64 `json:"p99JCTHours"`
	P99Wait8    float64 `json:"p99WaitHours8"`
	P99Idle8    float64 `json:"p99IdleHours8"`
	Allocation  float64 `json:"allocationPercent"`
	Preemptions float64 `json:"preemptions"`
	LostHours   float64 `json:"lostGPUHours"`
	LostPercent float64 `json:"lostPercent"`
	Makespan    float64 `json:"makespanHours"`
	RhoMax      float64 `json:"rhoMax,omitempty"`
	RhoP95      float64 `json:"rhoP95,omitempty"`
}

// add adds a report's figures.
func (s *Summary) add(report *simulation.Report) {
	s.Seeds++
	s.MeanJCT += report.MeanJCT
	s.P50JCT += report.P50JCT
	s.P90JCT += report.P90JCT
	s.P99JCT += report.P99JCT
	s.P99Wait8 += report.P99Wait8
	s.P99Idle8 += report.P99Idle8
	s.Allocation += report.Allocation
	s.Preemptions += float64(report.Preemptions)
	s.LostHours += report.LostHours
	s.LostPercent += report.LostPercent
	s.Makespan += report.Makespan
	if report.Fairness != nil {
		s.RhoMax += report.Fairness.Max
		s.RhoP95 += report.Fairness.P95
	}
}

// divide turns sums into means.
func (s *Summary) divide() {
	for _, value := range []*float64{
		&s.MeanJCT, &s.P50JCT, &s.P90JCT, &s.P99JCT, &s.P99Wait8, &s.P99Idle8, &s.Allocation,
		&s.Preemptions, &s.LostHours, &s.LostPercent, &s.Makespan, &s.RhoMax, &s.RhoP95,
	} {
		*value = math.Round(*value/float64(s.Seeds)*1e6) / 1e6
	}
}

// summarise fills in the means over the seeds.
func (d *Document) summarise(policies []string) {
	for _, policy := range policies {
		summary := Summary{Policy: policy}
		for _, report := range d.Results {
			if report.Policy == policy {
				summary.add(report)
			}
		}
		summary.divide()
		d.Summary = append(d.Summary, summary)
	}
}

// rows are the lines of the first table: the results, or with several seeds
// their means.
func (d *Document) rows() []Summary {
	if len(d.Summary) > 0 {
		return d.Summary
	}
	var rows []Summary
	for _, report := range d.Results {
		row := Summary{Policy: report.Policy}
		row.add(report)
		rows = append(rows, row)
	}
	return rows
}

// print prints the document in the format.
func (d *Document) print(streams terminal.Streams, format output.Format) error {
	switch format {
	case output.JSON:
		return output.Print(streams.Out, format, d)
	case csvFormat:
		return d.csv(streams.Out)
	}
	return d.table(streams.Out, streams.OutStyle())
}
