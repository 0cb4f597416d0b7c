package simulate

import (
	"encoding/csv"
	"io"
	"strconv"

	simulation "github.com/muster-dev/muster/internal/simulate"
)

// csvHeader names the columns by the fields of the JSON. What is of a whole
// replay and not of a size class stands in the rows of the class "all" alone.
var csvHeader = []string{
	"trace", "limits", "nodes", "gpusPerNode", "policy", "seed", "gpus", "jobs", "starts",
	"meanJCTHours", "p50JCTHours", "p90JCTHours", "p99JCTHours",
	"meanWaitHours", "p50WaitHours", "p90WaitHours", "p99WaitHours", "meanIdleHours", "p99IdleHours",
	"meanBoundedSlowdown", "p99WaitHours8", "p99IdleHours8", "allocationPercent",
	"preemptions", "lostGPUHours", "lostPercent", "makespanHours", "rhoMax", "rhoP95", "hash",
}

// csv writes a row for every seed, policy and size class.
func (d *Document) csv(w io.Writer) error {
	out := csv.NewWriter(w)
	_ = out.Write(csvHeader)
	for _, report := range d.Results {
		for _, class := range report.Classes {
			_ = out.Write(d.record(report, class))
		}
	}
	out.Flush()
	return out.Error()
}

func (d *Document) record(report *simulation.Report, class simulation.Figures) []string {
	record := []string{
		d.Trace, d.Limits, strconv.Itoa(d.Nodes), strconv.Itoa(d.GPUsPerNode),
		report.Policy, strconv.FormatUint(report.Seed, 10), class.GPUs, strconv.Itoa(class.Jobs), strconv.Itoa(class.Starts),
	}
	for _, value := range []float64{
		class.MeanJCT, class.P50JCT, class.P90JCT, class.P99JCT,
		class.MeanWait, class.P50Wait, class.P90Wait, class.P99Wait, class.MeanIdle, class.P99Idle,
		class.MeanSlowdown,
	} {
		record = append(record, plain(value))
	}
	if class.GPUs != "all" {
		return append(record, make([]string, len(csvHeader)-len(record))...)
	}
	record = append(record, plain(report.P99Wait8), plain(report.P99Idle8), plain(report.Allocation),
		strconv.Itoa(report.Preemptions), plain(report.LostHours), plain(report.LostPercent), plain(report.Makespan))
	if report.Fairness != nil {
		return append(record, plain(report.Fairness.Max), plain(report.Fairness.P95), report.Hash)
	}
	return append(record, "", "", report.Hash)
}

// plain writes a number with as many digits as it has.
func plain(value float64) string { return strconv.FormatFloat(value, 'f', -1, 64) }
