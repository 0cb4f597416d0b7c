package run

import (
	"fmt"
	"io"
	"strings"

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
		headline += " after " + terminal.Span(status.FinishTime.Sub(status.StartTime.Time))
	}
	_, _ = fmt.Fprintf(out, "\n%s %s\n", style.Paint(terminal.Bold, job.Name), headline)
	if status.Phase == v1alpha1.JobFailed && status.Message != "" {
		_, _ = fmt.Fprintf(out, "  %s\n", status.Message)
	}
	table := terminal.NewTable()
	if status.Restarts > 0 {
		table.Row("restarts", fmt.Sprint(status.Restarts))
	}
	if status.GPUs > 0 {
		table.Row("GPU time", seconds(status.GPUSeconds))
	}
	if status.StartTime != nil {
		table.Row("CPU time", seconds(status.CPUSeconds))
	}
	if status.LastWorkerTime != nil && status.DrainedTime != nil {
		table.Row("all gone", terminal.Span(status.DrainedTime.Sub(status.LastWorkerTime.Time))+" after the last worker's end")
	}
	if status.StartTime != nil {
		table.Row("checkpoints", checkpoints(job))
	}
	_ = table.Write(out, style, "  ")
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
	if job.Spec.Checkpoints != nil && job.Spec.Checkpoints.Claim != "" {
		return "claim " + job.Spec.Checkpoints.Claim + " (kept: --checkpoints " + job.Spec.Checkpoints.Claim + " goes on from there)"
	}
	return "claim " + job.Name + "-checkpoints, until the job is deleted"
}
