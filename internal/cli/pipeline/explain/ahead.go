package explain

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/data/address"
	"github.com/muster-dev/muster/internal/cli/data/opening"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/pipeline/apply"
	"github.com/muster-dev/muster/internal/cli/pipeline/lookup"
	"github.com/muster-dev/muster/internal/cli/suggestion"
	"github.com/muster-dev/muster/internal/cli/terminal"
	plans "github.com/muster-dev/muster/internal/pipeline"
)

// Foreseen is one pipeline, as -o json prints what a run of it would compute.
type Foreseen struct {
	Pipeline string `json:"pipeline"`
	Message  string `json:"message"`
	// Inputs are the versions that were asked for.
	Inputs []v1alpha1.RunInput `json:"inputs,omitempty"`
	Stages []ForeseenStage     `json:"stages"`
}

// ForeseenStage is one stage of it.
type ForeseenStage struct {
	Stage   string               `json:"stage"`
	Message string               `json:"message"`
	Why     string               `json:"why,omitempty"`
	Datums  v1alpha1.DatumCounts `json:"datums"`
	// Compute is how many datums it would compute: at most, where that is said, and
	// nobody knows, where unknown is.
	Compute    int64   `json:"compute"`
	AtMost     bool    `json:"atMost,omitempty"`
	Unknown    bool    `json:"unknown,omitempty"`
	Seconds    float64 `json:"seconds,omitempty"`
	GPUSeconds float64 `json:"gpuSeconds,omitempty"`
	Samples    int32   `json:"samples,omitempty"`
	Recipe     string  `json:"recipe,omitempty"`
}

// neverRan says that a word is the name of a pipeline that has not run.
func (o *options) neverRan(ctx context.Context, store *opening.Store, name string) bool {
	return store.Server.Get(ctx, client.ObjectKey{Namespace: store.Namespace, Name: name}, &v1alpha1.Pipeline{}) == nil
}

// next says what a run of a pipeline would compute now.
func (o *options) next(ctx context.Context, args []string) error {
	store, err := opening.OpenStore(ctx, o.factory)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	p, err := lookup.Pipeline(ctx, store.Server, store.Namespace, args[0])
	if err != nil {
		return err
	}
	found, err := o.ask(ctx, store, p, args[1:])
	if err != nil {
		return err
	}
	return o.printAhead([]Foreseen{*found})
}

// file says what runs of the pipelines of files would compute.
func (o *options) file(ctx context.Context, args []string) error {
	store, err := opening.OpenStore(ctx, o.factory)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	all := []Foreseen{}
	var files []string
	var pipelines []*v1alpha1.Pipeline
	for _, file := range o.files {
		objects, err := apply.Read(ctx, o.factory, file)
		if err != nil {
			return err
		}
		for _, object := range objects {
			p := &v1alpha1.Pipeline{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, p); err != nil {
				return exit.Usage("%s: %v", file, err)
			}
			files, pipelines = append(files, file), append(pipelines, p)
		}
	}
	name, stages, err := chosen(pipelines, args)
	if err != nil {
		return err
	}
	for i, p := range pipelines {
		if name != "" && p.Name != name {
			continue
		}
		found, err := o.ask(ctx, store, p, stages)
		if err != nil {
			return fmt.Errorf("%s: %w", files[i], err)
		}
		all = append(all, *found)
	}
	return o.printAhead(all)
}

// chosen tells the name of one of the pipelines of files, if the first word is one, from stages. One
// word that is both is a stage.
func chosen(pipelines []*v1alpha1.Pipeline, words []string) (name string, stages []string, err error) {
	var names []string
	staged := false
	for _, p := range pipelines {
		names = append(names, p.Name)
		staged = staged || len(words) == 1 && slices.ContainsFunc(p.Spec.Stages, func(s v1alpha1.Stage) bool { return s.Name == words[0] })
	}
	switch {
	case len(words) > 0 && slices.Contains(names, words[0]) && !staged:
		return words[0], words[1:], nil
	case len(words) == 2:
		return "", nil, exit.NotFound("the files have no pipeline %s%s", words[0], suggestion.Phrase(words[0], names))
	}
	return "", words, nil
}

// ask has a dry run made of a pipeline, and reads what came of it.
func (o *options) ask(ctx context.Context, store *opening.Store, p *v1alpha1.Pipeline, stages []string) (*Foreseen, error) {
	graph, err := plans.Parse(p.Name, &p.Spec)
	if err != nil {
		return nil, exit.Usage("pipeline %s: %v", p.Name, err)
	}
	run := &v1alpha1.PipelineRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: store.Namespace, Name: p.Name + "-would-" + strings.ToLower(rand.Text()[:6]), Labels: map[string]string{v1alpha1.LabelPipeline: p.Name}},
		Spec:       v1alpha1.PipelineRunSpec{Pipeline: p.Name, Cause: "asked what it would compute", Queue: p.Spec.Queue, DryRun: true},
	}
	run.Spec.Identity = run.Name
	var names []string
	for _, stage := range graph.Stages {
		run.Spec.Stages = append(run.Spec.Stages, stage.Spec)
		names = append(names, stage.Name)
	}
	for _, name := range stages {
		if !slices.Contains(names, name) {
			return nil, exit.NotFound("pipeline %s has no stage %s%s", p.Name, name, suggestion.Phrase(name, names))
		}
	}
	if run.Spec.Inputs, err = o.versions(ctx, store, graph); err != nil {
		return nil, err
	}
	if err := made(ctx, store.Server, run); err != nil {
		return nil, err
	}
	if run.Status.Phase != v1alpha1.RunSucceeded {
		return nil, exit.With(exit.Failure, fmt.Errorf("a run of pipeline %s would fail: %s", p.Name, run.Status.Message))
	}
	return foreseen(run, stages), nil
}

// versions are the commits that are to be read in place of what branches are at.
func (o *options) versions(ctx context.Context, store *opening.Store, graph *plans.Graph) ([]v1alpha1.RunInput, error) {
	var inputs []v1alpha1.RunInput
	for _, text := range o.with {
		a, err := address.ParseBare(text)
		if err != nil {
			return nil, exit.Usage("--with %s: %v", text, err)
		}
		branches, known := map[string]bool{}, []string{}
		for _, stage := range graph.Stages {
			for _, source := range stage.Sources {
				if source.Stage != "" || source.Cron != nil {
					continue
				}
				known = append(known, source.Dataset)
				if source.Dataset == a.Dataset {
					branches[source.Branch] = true
				}
			}
		}
		if len(branches) == 0 {
			return nil, exit.NotFound("--with %s: pipeline %s does not read dataset %s%s", text, graph.Name, a.Dataset, suggestion.Phrase(a.Dataset, known))
		}
		commit, err := store.Dataset(a.Dataset).Commit(ctx, a)
		if err != nil {
			return nil, fmt.Errorf("--with %s: %w", text, err)
		}
		for branch := range branches {
			inputs = append(inputs, v1alpha1.RunInput{Dataset: a.Dataset, Branch: v1alpha1.DatasetRef(branch), Commit: commit.ID.String()})
		}
	}
	return inputs, nil
}

// made makes a dry run, waits until it has ended and removes it.
func made(ctx context.Context, server client.WithWatch, run *v1alpha1.PipelineRun) error {
	// Watched before it is made, so that nothing is missed.
	events, err := server.Watch(ctx, &v1alpha1.PipelineRunList{}, client.InNamespace(run.Namespace), client.MatchingFields{"metadata.name": run.Name})
	if err != nil {
		return fmt.Errorf("watching runs: %w", err)
	}
	defer events.Stop()
	if err := server.Create(ctx, run); err != nil {
		return fmt.Errorf("asking what a run would compute: %w", err)
	}
	defer func() {
		// One that stays behind is removed by the controller.
		_ = server.Delete(context.WithoutCancel(ctx), run)
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case event, ok := <-events.ResultChan():
			if !ok {
				return errors.New("the server closed the watch: try again")
			}
			now, is := event.Object.(*v1alpha1.PipelineRun)
			if is && now.Name == run.Name && lookup.Ended(now.Status.Phase) {
				run.Status = now.Status
				return nil
			}
		}
	}
}

// foreseen is what a dry run says, of some stages or of all.
func foreseen(run *v1alpha1.PipelineRun, stages []string) *Foreseen {
	f := &Foreseen{Pipeline: run.Spec.Pipeline, Message: run.Status.Message, Inputs: run.Spec.Inputs, Stages: []ForeseenStage{}}
	for i := range run.Status.Stages {
		s := &run.Status.Stages[i]
		if len(stages) > 0 && !slices.Contains(stages, s.Name) {
			continue
		}
		is := ForeseenStage{Stage: s.Name, Message: s.Message, Why: s.Why, Datums: s.Datums, Recipe: s.Recipe}
		if e := s.Estimate; e != nil {
			is.Compute, is.AtMost, is.Unknown, is.Samples = e.Compute, e.AtMost, e.Unknown, e.Samples
			if e.Seconds != nil {
				is.Seconds = e.Seconds.AsApproximateFloat64()
			}
			if e.GPUSeconds != nil {
				is.GPUSeconds = e.GPUSeconds.AsApproximateFloat64()
			}
		}
		f.Stages = append(f.Stages, is)
	}
	return f
}

func (o *options) printAhead(all []Foreseen) error {
	streams := o.factory.Streams
	if *o.format != output.Human {
		return output.Print(streams.Out, *o.format, all)
	}
	style := streams.OutStyle()
	out := ""
	for i := range all {
		f := &all[i]
		out += fmt.Sprintf("%s  a run %s\n", style.Paint(terminal.Bold, f.Pipeline), f.Message)
		for _, in := range f.Inputs {
			out += fmt.Sprintf("reading %.8s in place of %s@%s\n", in.Commit, in.Dataset, in.Branch)
		}
		for k := range f.Stages {
			out += o.aheadStage(style, &f.Stages[k])
		}
	}
	_, err := fmt.Fprint(streams.Out, out)
	return err
}

// aheadStage are the lines about one stage.
func (o *options) aheadStage(style terminal.Style, s *ForeseenStage) string {
	out := fmt.Sprintf("\n%s  %s\n", style.Paint(terminal.Bold, s.Stage), s.Message)
	if s.Why != "" {
		out += "  why: " + s.Why + "\n"
	}
	if s.Samples > 0 && s.Compute > 0 {
		most := "about"
		if s.AtMost {
			most = "at most about"
		}
		out += fmt.Sprintf("  %s %.1f s of work for one worker", most, s.Seconds)
		if s.GPUSeconds > 0 {
			out += fmt.Sprintf(", %.1f GPU-seconds", s.GPUSeconds)
		}
		out += fmt.Sprintf(", by %s of before\n", terminal.Count(int64(s.Samples), "result"))
	}
	if o.recipe && s.Recipe != "" {
		out += "  recipe: " + s.Recipe + "\n"
	}
	return out
}
