package simulate

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/muster-dev/muster/internal/cli/terminal"
	simulation "github.com/muster-dev/muster/internal/simulate"
)

// columns are the cells of a row of numbers. Numbers stand on the right, so
// their widths are known before they are written.
type columns struct {
	header []string
	rows   [][]string
	// words is how many columns at the beginning are no numbers.
	words int
}

func (c *columns) row(cells ...string) { c.rows = append(c.rows, cells) }

// write prints the rows as a table.
func (c *columns) write(w io.Writer, style terminal.Style) error {
	widths := make([]int, len(c.header))
	for _, row := range append([][]string{c.header}, c.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], len(cell))
		}
	}
	right := func(row []string) []string {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = cell
			if i >= c.words {
				cells[i] = strings.Repeat(" ", widths[i]-len(cell)) + cell
			}
		}
		return cells
	}
	table := terminal.NewTable(right(c.header)...)
	for _, row := range c.rows {
		table.Row(right(row)...)
	}
	return table.Write(w, style, "")
}

// table prints the document for people.
func (d *Document) table(w io.Writer, style terminal.Style) error {
	var text strings.Builder
	what := d.Trace
	if d.File != "" {
		what += " (" + d.File + ")"
	}
	span := ""
	if d.From != "" {
		span += " from " + d.From
	}
	if d.To != "" {
		span += " to " + d.To
	}
	_, _ = fmt.Fprintf(&text, "%s: %s%s on %s of %s, load %.2f\n", what,
		terminal.Count(int64(d.Jobs), "job"), span, terminal.Count(int64(d.Nodes), "node"), terminal.Count(int64(d.GPUsPerNode), "GPU"), d.Load)
	_, _ = fmt.Fprintf(&text, "limits %s: %s\n", d.Limits, d.LimitsMeaning)
	if len(d.Summary) > 0 {
		_, _ = fmt.Fprintf(&text, "means over %s\n", terminal.Count(int64(d.Summary[0].Seeds), "seed"))
	}
	text.WriteString("hours; JCT: submission to end; wait: submission to first start; idle: all time not running\n\n")
	if _, err := io.WriteString(w, text.String()); err != nil {
		return err
	}
	if err := d.overview().write(w, style); err != nil {
		return err
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return err
	}
	return d.bySize().write(w, style)
}

// overview has a row for each policy.
func (d *Document) overview() *columns {
	table := &columns{words: 1, header: []string{
		"POLICY", "JCT", "P50", "P90", "P99", "WAIT P99 >=8", "IDLE P99 >=8",
		"ALLOCATED", "PREEMPTIONS", "LOST GPU-H", "LOST", "MAKESPAN", "RHO MAX", "RHO P95",
	}}
	for _, row := range d.rows() {
		rho, p95 := "-", "-"
		if row.RhoMax > 0 {
			rho, p95 = number(row.RhoMax, 2), number(row.RhoP95, 2)
		}
		table.row(row.Policy, number(row.MeanJCT, 2), number(row.P50JCT, 2), number(row.P90JCT, 2), number(row.P99JCT, 1),
			number(row.P99Wait8, 1), number(row.P99Idle8, 1), number(row.Allocation, 1)+"%",
			number(row.Preemptions, 0), number(row.LostHours, 0), number(row.LostPercent, 2)+"%",
			number(row.Makespan, 0), rho, p95)
	}
	return table
}

// bySize has a row for each policy, seed and size class that has jobs.
func (d *Document) bySize() *columns {
	table := &columns{words: 2, header: []string{
		"POLICY", "GPUS", "JOBS", "STARTS", "JCT", "P50", "P90", "P99",
		"WAIT", "P50", "P90", "P99", "IDLE", "P99", "SLOWDOWN",
	}}
	seeds := len(d.Summary) > 0
	if seeds {
		table.header = append(table.header, "SEED")
	}
	for _, report := range d.Results {
		for _, class := range report.Classes {
			if class.Jobs == 0 {
				continue
			}
			cells := append([]string{report.Policy, class.GPUs, strconv.Itoa(class.Jobs), strconv.Itoa(class.Starts)}, hours(class)...)
			cells = append(cells, number(class.MeanSlowdown, 1))
			if seeds {
				cells = append(cells, strconv.FormatUint(report.Seed, 10))
			}
			table.row(cells...)
		}
	}
	return table
}

// hours are the times of a class.
func hours(class simulation.Figures) []string {
	var cells []string
	for _, value := range []float64{
		class.MeanJCT, class.P50JCT, class.P90JCT, class.P99JCT,
		class.MeanWait, class.P50Wait, class.P90Wait, class.P99Wait, class.MeanIdle, class.P99Idle,
	} {
		cells = append(cells, number(value, 2))
	}
	return cells
}

// number writes a number with so many digits after the point.
func number(value float64, digits int) string { return strconv.FormatFloat(value, 'f', digits, 64) }
