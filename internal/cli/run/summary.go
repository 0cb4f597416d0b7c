package run

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// summarize writes how a finished job went.
func summarize(out io.Writer, style terminal.Style, job *v1alpha1.TrainingJob) {
	status := job.Status
	colour := terminal.Green
	if status.Phase == v1alpha1.JobFailed {
		colour = terminal.Red
	}
	headline := style.Paint(colour, strings.ToLower(string(status.Phase)))
	if status.StartTime != nil && status.FinishTime != nil {
		headline += " " + lasted(status.FinishTime.Sub(status.StartTime.Time))
	}
	_, _ = fmt.Fprintf(out, "\n%s %s\n", style.Paint(terminal.Bold, job.Name), headline)
	if status.Phase == v1alpha1.JobFailed && status.Message != "" {
		_, _ = fmt.Fprintf(out, "  %s\n", strings.ReplaceAll(strings.TrimSpace(status.Message), "\n", "\n  "))
	}
	table := terminal.NewTable()
	if status.Restarts > 0 {
		table.Row("restarts", fmt.Sprint(status.Restarts))
	}
	if status.StartTime != nil {
		gpuTime := seconds(status.GPUSeconds)
		if status.GPUs == 0 {
			gpuTime += ", no GPU was asked for"
		}
		table.Row("GPU time", gpuTime)
		table.Row("CPU time", seconds(status.CPUSeconds))
	}
	if status.LastWorkerTime != nil && status.DrainedTime != nil {
		gone := terminal.Span(status.DrainedTime.Sub(status.LastWorkerTime.Time)) + " after the last worker's end"
		if slices.ContainsFunc(job.Spec.Roles, func(role v1alpha1.Role) bool { return role.Name == "ps" }) {
			gone += ", parameter servers too"
		}
		table.Row("all gone", gone)
	}
	if status.StartTime != nil {
		table.Row("checkpoints", checkpoints(job))
	}
	_ = table.Write(out, style, "  ")
}

// lasted says how long a job ran. Its times are whole seconds.
func lasted(span time.Duration) string {
	if span < time.Second {
		return "in " + terminal.WholeSpan(span)
	}
	return "after " + terminal.WholeSpan(span)
}

// seconds writes a quantity of seconds: "84.2 s", and in hours where that says
// more.
func seconds(quantity resource.Quantity) string {
	value := quantity.AsApproximateFloat64()
	text := fmt.Sprintf("%.1f s", value)
	if value >= 3600 {
		text += fmt.Sprintf(" (%.1f h)", value/3600)
	}
	return text
}

// checkpoints says where they are, and how long.
func checkpoints(job *v1alpha1.TrainingJob) string {
	switch c := job.Spec.Checkpoints; {
	case c != nil && c.None:
		return "none: nothing was kept"
	case c != nil && c.Claim != "":
		return "claim " + job.Spec.Checkpoints.Claim + " (kept: --checkpoints " + job.Spec.Checkpoints.Claim + " goes on from there)"
	}
	return "claim " + job.Name + "-checkpoints, until the job is deleted"
}
