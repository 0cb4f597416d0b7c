package explain

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/data/opening"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/pipeline/lookup"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/data"
	plans "github.com/muster-dev/muster/internal/pipeline"
)

// ExplainedDatum is why a run computed a datum or did not, as -o json prints it.
type ExplainedDatum struct {
	Run   string `json:"run"`
	Stage string `json:"stage"`
	Datum string `json:"datum"`
	// Verdict is computed, reused (it is new or different, and there was a result for it),
	// same or gone.
	Verdict plans.Verdict `json:"verdict"`
	// New says that the run before had none of this name, Failed that it had failed there.
	New    bool `json:"new,omitempty"`
	Failed bool `json:"failed,omitempty"`
	// Differences are what is not as it was in the run before, at most 100 of them files.
	Differences []string `json:"differences,omitempty"`
	// Record is how its result was computed, by this run or by another.
	Record *plans.Record `json:"record,omitempty"`
}

// why says why a run computed a datum of a stage or did not.
func (o *options) why(ctx context.Context, store *opening.Store, run *v1alpha1.PipelineRun, stage string) error {
	s, err := lookup.Stage(run, stage)
	if err != nil {
		return err
	}
	if s.Output == nil || s.Output.Commit == "" {
		return exit.With(exit.Failure, fmt.Errorf("stage %s of run %s has no output (%s), and what it read is kept with that: `muster pipeline explain %s %s` says what is known", stage, run.Name, s.Phase, run.Name, stage))
	}
	results := store.Dataset(plans.ResultsDataset)
	view, err := results.At(ctx, "")
	if err != nil {
		return fmt.Errorf("reading the results of stages: %w", err)
	}
	c, err := results.Resolve(ctx, s.Output.Commit)
	if err != nil {
		return fmt.Errorf("reading the output of stage %s: %w", stage, err)
	}
	plan, err := plans.PlanOf(ctx, store.Trees(), results.Dataset, view, &c)
	if errors.Is(err, fs.ErrNotExist) {
		return exit.NotFound("what stage %s of run %s read, or had before, is not kept any more: %w", stage, run.Name, err)
	}
	if err != nil {
		return err
	}
	found, err := plan.ExplainDatum(ctx, view, o.datum)
	if errors.Is(err, fs.ErrNotExist) {
		return exit.NotFound("stage %s of run %s has no datum %q: `muster data trace` says which one made a file", stage, run.Name, o.datum)
	}
	if err != nil {
		return err
	}
	e, err := explained(ctx, view, run, stage, found)
	if err != nil {
		return err
	}
	if *o.format != output.Human {
		return output.Print(o.factory.Streams.Out, *o.format, e)
	}
	_, err = fmt.Fprint(o.factory.Streams.Out, o.lines(&e))
	return err
}

// explained is an explanation in words. What the run itself computed has its result now.
func explained(ctx context.Context, view *data.View, run *v1alpha1.PipelineRun, stage string, found *plans.DatumExplanation) (ExplainedDatum, error) {
	e := ExplainedDatum{Run: run.Name, Stage: stage, Datum: found.Name, Verdict: found.Verdict, New: found.New, Failed: found.Failed, Record: found.Record}
	for _, all := range [][]plans.Difference{found.Recipe, found.Files} {
		for _, d := range all {
			e.Differences = append(e.Differences, d.String())
		}
	}
	if e.Verdict == plans.Gone || !found.Key.IsZero() && e.Record != nil {
		return mine(e, run), nil
	}
	var err error
	if e.Record, err = plans.ReadRecord(ctx, view, found.Key); errors.Is(err, fs.ErrNotExist) {
		err = nil // it is not kept any more
	}
	return mine(e, run), err
}

// mine has what the run computed be told so.
func mine(e ExplainedDatum, run *v1alpha1.PipelineRun) ExplainedDatum {
	if e.Verdict != plans.Gone && e.Record != nil && e.Record.Run == run.Spec.Identity {
		e.Verdict = plans.Computed
	}
	return e
}

// verdicts are the verdicts in words.
var verdicts = map[plans.Verdict]string{
	plans.Computed: "computed by this run",
	plans.Reused:   "not computed: there was a result for what it is now",
	plans.Same:     "not computed: it is as it was in the run before",
	plans.Gone:     "not there any more",
}

func (o *options) lines(e *ExplainedDatum) string {
	style := o.factory.Streams.OutStyle()
	out := fmt.Sprintf("%s of stage %s: %s\n", style.Paint(terminal.Bold, e.Datum), e.Stage, verdicts[e.Verdict])
	switch {
	case e.New:
		out += "  the run before had no datum of this name\n"
	case e.Failed:
		out += "  it failed in the run before\n"
	case len(e.Differences) == 0 && e.Verdict == plans.Computed:
		out += "  nothing differs that counts: all was asked to be computed again, or nothing was kept\n"
	}
	for _, d := range e.Differences {
		out += "  " + d + "\n"
	}
	if r := e.Record; r != nil && e.Verdict != plans.Gone {
		out += fmt.Sprintf("  its result: stage %s of pipeline %s, run %s, in %.2f s", r.Stage, r.Pipeline, r.Run, r.Seconds)
		if r.Where != "" {
			out += " on " + r.Where
		}
		if r.Error != "" {
			out += ", failed: " + r.Error
		}
		out += "\n"
	}
	return out
}
