package pipeline

import (
	"slices"
	"strings"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/pipeline"
)

// mostEnding is the longest message of a run in the status of its pipeline, in bytes.
const mostEnding = 1024

// lastEnded is the result of the last run that has ended. It stays if runs are not kept, or cannot
// be listed.
func (s *seen) lastEnded() *v1alpha1.EndedRun {
	p := s.pipeline
	switch limit := p.Spec.HistoryLimit; {
	case len(s.ended) > 0:
		run := slices.MaxFunc(s.ended, pipeline.Order)
		return &v1alpha1.EndedRun{Name: run.Name, Phase: run.Status.Phase, Message: cut(run.Status.Message, mostEnding), FinishTime: run.Status.FinishTime.DeepCopy()}
	case s.graph == nil, limit != nil && *limit == 0:
		return p.Status.LastEnded.DeepCopy()
	}
	return nil
}

// cut returns at most so many bytes of a text.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-3], "") + "..."
}
