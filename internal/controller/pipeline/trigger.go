package pipeline

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/pipeline"
)

// head is a branch of a dataset.
type head struct{ dataset, branch string }

func (h head) String() string { return h.dataset + "@" + h.branch }

// seen is everything that is known of a pipeline.
type seen struct {
	pipeline *v1alpha1.Pipeline
	// graph is the checked pipeline; problem says why there is none.
	graph   *pipeline.Graph
	problem string
	// datasets are those that there are, heads where their branches are.
	datasets map[string]bool
	heads    map[head]string
	// running names a run that has not ended, if any.
	running string
	// ended are the runs that have.
	ended []*v1alpha1.PipelineRun
	// identity is that of the run that made a commit, if a run did.
	identity map[string]string
}

// decided is what is to be done about a pipeline.
type decided struct {
	status v1alpha1.PipelineStatus
	// start is a run to create.
	start *v1alpha1.PipelineRun
	// forget are runs that ended, more than the pipeline keeps.
	forget []*v1alpha1.PipelineRun
}

// decide says whether a run is to be started.
func decide(s *seen) decided {
	p := s.pipeline
	d := decided{status: *p.Status.DeepCopy(), forget: s.forgotten()}
	d.status.ObservedGeneration, d.status.Stages = p.Generation, int32(len(p.Spec.Stages))
	d.status.LastEnded = s.lastEnded()
	say := func(phase v1alpha1.PipelinePhase, format string, args ...any) decided {
		d.status.Phase, d.status.Message = phase, fmt.Sprintf(format, args...)
		if last := d.status.LastEnded; phase == v1alpha1.PipelineReady && last != nil && last.Phase == v1alpha1.RunFailed {
			d.status.Message += fmt.Sprintf("; the last run, %s, failed: %s", last.Name, last.Message)
		}
		return d
	}
	if s.problem != "" {
		return say(v1alpha1.PipelineInvalid, "%s", s.problem)
	}
	now, missing := s.inputs()
	stages, digest := stagesOf(s.graph)
	changed := changes(p.Status.Seen, now, silent(s.graph))
	due := len(changed) > 0 || digest != p.Status.SeenStages
	switch {
	case p.Spec.Paused && due:
		return say(v1alpha1.PipelinePaused, "paused: what has changed meanwhile starts a run once it is resumed")
	case p.Spec.Paused:
		return say(v1alpha1.PipelinePaused, "paused")
	case s.running != "" && due:
		return say(v1alpha1.PipelineRunning, "run %s is on its way; one with what has changed since follows", s.running)
	case s.running != "":
		return say(v1alpha1.PipelineRunning, "run %s is on its way", s.running)
	case missing != "":
		return say(v1alpha1.PipelineReady, "%s", missing)
	case !due:
		return say(v1alpha1.PipelineReady, "waits for commits")
	}
	d.start = s.run(now, changed, stages, digest)
	note(&d.status, d.start)
	return say(v1alpha1.PipelineRunning, "run %s is on its way", d.start.Name)
}

// note notes a run that was started.
func note(status *v1alpha1.PipelineStatus, run *v1alpha1.PipelineRun) {
	status.Runs, status.LastRun, status.Seen, status.SeenStages = run.Spec.Number, run.Name, run.Spec.Inputs, digestOf(run.Spec.Stages)
}

// unnoted says that a run is the one that was started last, which could not be noted: what
// it has seen starts no other, and it is the one before the next.
func unnoted(p *v1alpha1.Pipeline, run *v1alpha1.PipelineRun) bool {
	return run.Name == runName(p, run.Spec.Inputs, digestOf(run.Spec.Stages))
}

// defaultHistory is how many runs that ended a pipeline keeps that says nothing.
const defaultHistory = 100

// forgotten are the runs that ended before the last ones that the pipeline keeps.
func (s *seen) forgotten() []*v1alpha1.PipelineRun {
	keep := defaultHistory
	if limit := s.pipeline.Spec.HistoryLimit; limit != nil {
		keep = int(*limit)
	}
	if len(s.ended) <= keep {
		return nil
	}
	ended := slices.SortedFunc(slices.Values(s.ended), pipeline.Order)
	return ended[:len(ended)-keep]
}

// inputs are the branches that are read from outside, as they are now, and in
// words what is missing of them.
func (s *seen) inputs() (now []v1alpha1.RunInput, missing string) {
	for _, h := range external(s.graph) {
		in := v1alpha1.RunInput{Dataset: h.dataset, Branch: v1alpha1.DatasetRef(h.branch), Commit: s.heads[h]}
		now = append(now, in)
		switch {
		case in.Commit != "" || missing != "":
		case !s.datasets[h.dataset]:
			missing = fmt.Sprintf("waits for dataset %s: `muster data create %s` makes it", h.dataset, h.dataset)
		default:
			missing = fmt.Sprintf("waits for the first commit on %s", h)
		}
	}
	return now, missing
}

// external are the branches that a pipeline reads and does not write, in order.
func external(g *pipeline.Graph) []head {
	var all []head
	for _, stage := range g.Stages {
		for _, source := range stage.Sources {
			if source.Stage == "" {
				all = append(all, sourceHead(g, stage, source))
			}
		}
	}
	slices.SortFunc(all, func(a, b head) int { return cmp.Or(cmp.Compare(a.dataset, b.dataset), cmp.Compare(a.branch, b.branch)) })
	return slices.Compact(all)
}

// sourceHead is the branch that a source reads: for times one of its own.
func sourceHead(g *pipeline.Graph, stage *pipeline.Stage, source *pipeline.Source) head {
	if source.Cron != nil {
		return head{timesDataset(g, stage, source), v1alpha1.DefaultBranch}
	}
	return head{source.Dataset, source.Branch}
}

// timesDataset is the dataset of a source of times.
func timesDataset(g *pipeline.Graph, stage *pipeline.Stage, source *pipeline.Source) string {
	name := strings.ToLower(strings.ReplaceAll(g.Name+"-"+stage.Name+"-"+source.Name, "_", "-"))
	if len(name) > 63 {
		sum := sha256.Sum256([]byte(name))
		name = name[:54] + "-" + hex.EncodeToString(sum[:4])
	}
	return name
}

// silent are the branches of which commits start nothing.
func silent(g *pipeline.Graph) map[head]bool {
	out := map[head]bool{}
	for _, stage := range g.Stages {
		for _, source := range stage.Sources {
			if h := sourceHead(g, stage, source); source.Stage == "" {
				before, known := out[h]
				out[h] = source.Silent && (before || !known)
			}
		}
	}
	return out
}

// changes are the inputs that are elsewhere than they were.
func changes(before, now []v1alpha1.RunInput, silent map[head]bool) (out []v1alpha1.RunInput) {
	for _, in := range now {
		if !slices.Contains(before, in) && !silent[head{in.Dataset, string(in.Branch)}] {
			out = append(out, in)
		}
	}
	return out
}

// stagesOf are the stages with everything that the pipeline says for them, in the
// order of the graph, and a digest of it.
func stagesOf(g *pipeline.Graph) ([]v1alpha1.Stage, string) {
	var stages []v1alpha1.Stage
	for _, stage := range g.Stages {
		stages = append(stages, stage.Spec)
	}
	return stages, digestOf(stages)
}

func digestOf(stages []v1alpha1.Stage) string {
	text, err := json.Marshal(stages)
	if err != nil {
		text = fmt.Append(nil, stages) // cannot be: they came from JSON
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// runName is that of the next run. It follows from the run before and from what is
// read, so that whoever is killed between making it and noting that makes no other.
func runName(p *v1alpha1.Pipeline, now []v1alpha1.RunInput, digest string) string {
	text, err := json.Marshal(now)
	if err != nil {
		text = fmt.Append(nil, now)
	}
	sum := sha256.Sum256([]byte(string(p.UID) + "\x00" + p.Status.LastRun + "\x00" + digest + "\x00" + string(text)))
	return p.Name + "-" + hex.EncodeToString(sum[:4])
}

// run is the run that a change starts.
func (s *seen) run(now, changed []v1alpha1.RunInput, stages []v1alpha1.Stage, digest string) *v1alpha1.PipelineRun {
	p := s.pipeline
	name := runName(p, now, digest)
	identity := name
	for _, in := range changed {
		if made := s.identity[in.Commit]; made != "" {
			identity = made
			break
		}
	}
	return &v1alpha1.PipelineRun{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace, Name: name, Labels: map[string]string{v1alpha1.LabelPipeline: p.Name},
			Annotations:     submitter(p.Annotations),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(p, v1alpha1.GroupVersion.WithKind("Pipeline"))},
		},
		Spec: v1alpha1.PipelineRunSpec{
			Pipeline: p.Name, Number: p.Status.Runs + 1, Identity: identity, Cause: cause(changed, p.Status.LastRun != ""), Inputs: now, Stages: stages, Queue: p.Spec.Queue,
		},
	}
}

// cause says in words what started a run.
func cause(changed []v1alpha1.RunInput, again bool) string {
	if len(changed) == 0 {
		return "the pipeline changed"
	}
	if !again {
		return "the first run"
	}
	words := make([]string, 0, len(changed))
	for _, in := range changed {
		words = append(words, fmt.Sprintf("%.8s on %s@%s", cmp.Or(in.Commit, "nothing"), in.Dataset, in.Branch))
	}
	text := "commit " + strings.Join(words, ", ")
	return text[:min(len(text), 1000)]
}
