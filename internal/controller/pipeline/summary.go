package pipeline

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/pipeline"
)

// maxStages is how many stages a pipeline may have.
const maxStages = 32

// cancel ends every stage that has not ended.
func (c *Runs) cancel(graph *pipeline.Graph, status *v1alpha1.PipelineRunStatus, now metav1.Time) {
	for _, stage := range graph.Stages {
		if s := stageStatus(status, stage.Name); !Ended(s.Phase) {
			s.Phase, s.Message, s.FinishTime = v1alpha1.RunCancelled, "the run was cancelled", &now
		}
	}
	status.Phase, status.Message, status.FinishTime = v1alpha1.RunCancelled, "cancelled; what was computed is kept as results", &now
	status.Done = done(graph, status)
}

// stageStatus is the status of a stage, made where there is none.
func stageStatus(status *v1alpha1.PipelineRunStatus, name string) *v1alpha1.StageStatus {
	at := slices.IndexFunc(status.Stages, func(s v1alpha1.StageStatus) bool { return s.Name == name })
	if at < 0 {
		// Room for all of them is made at once: others point into it.
		if cap(status.Stages) < maxStages {
			status.Stages = slices.Grow(status.Stages, maxStages-len(status.Stages))
		}
		status.Stages = append(status.Stages, v1alpha1.StageStatus{Name: name, Phase: v1alpha1.RunWaiting})
		at = len(status.Stages) - 1
	}
	return &status.Stages[at]
}

// summarise sets the phase of the whole run.
func summarise(graph *pipeline.Graph, status *v1alpha1.PipelineRunStatus, now metav1.Time) {
	status.Done = done(graph, status)
	var failed, open *v1alpha1.StageStatus
	ended := true
	for i := range status.Stages {
		s := &status.Stages[i]
		switch {
		case s.Phase == v1alpha1.RunFailed && failed == nil:
			failed = s
		case exporting(s):
			ended = false
			if open == nil {
				open = &v1alpha1.StageStatus{Name: s.Name, Phase: v1alpha1.RunRunning, Message: s.Egress.Message}
			}
		case s.Egress != nil && s.Egress.Phase == v1alpha1.RunFailed && failed == nil:
			failed = &v1alpha1.StageStatus{Name: s.Name, Message: "its output is committed; " + s.Egress.Message}
		case !Ended(s.Phase):
			ended = false
			if open == nil || open.Phase == v1alpha1.RunWaiting && s.Phase != v1alpha1.RunWaiting {
				open = s
			}
		}
	}
	switch {
	case !ended:
		status.Phase, status.Message = open.Phase, fmt.Sprintf("stage %s: %s", open.Name, open.Message)
	case failed != nil:
		status.Phase, status.Message, status.FinishTime = v1alpha1.RunFailed, fmt.Sprintf("stage %s: %s", failed.Name, failed.Message), &now
	default:
		status.Phase, status.Message, status.FinishTime = v1alpha1.RunSucceeded, outcome(status), &now
	}
}

// outcome says what a run that succeeded came to.
func outcome(status *v1alpha1.PipelineRunStatus) string {
	var computed, reused, failed int64
	for i := range status.Stages {
		d := status.Stages[i].Datums
		computed, reused, failed = computed+d.Computed, reused+d.Reused, failed+d.Failed
	}
	switch {
	case computed+failed+reused == 0 && len(status.Stages) > 0:
		return fmt.Sprintf("no file matches the inputs of stage %s: nothing was computed", status.Stages[0].Name)
	case computed+failed == 0:
		return fmt.Sprintf("nothing to compute: %s as they were", datums(reused))
	case failed > 0:
		return fmt.Sprintf("%s computed, %d taken from before, %d failed and left out", datums(computed), reused, failed)
	}
	return fmt.Sprintf("%s computed, %d taken from before", datums(computed), reused)
}

func datums(n int64) string {
	if n == 1 {
		return "1 datum"
	}
	return fmt.Sprintf("%d datums", n)
}

func done(graph *pipeline.Graph, status *v1alpha1.PipelineRunStatus) string {
	n := 0
	for i := range status.Stages {
		if Ended(status.Stages[i].Phase) {
			n++
		}
	}
	return fmt.Sprintf("%d/%d", n, len(graph.Stages))
}
