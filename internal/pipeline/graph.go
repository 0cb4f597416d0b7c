package pipeline

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/robfig/cron/v3"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/pipeline/glob"
)

// Graph is a checked pipeline.
type Graph struct {
	// Name is the pipeline's.
	Name string
	// Stages are in an order in which each comes after those that it reads: among
	// several such orders the one that is nearest to how they were written.
	Stages []*Stage
}

// Stage is one step of a checked pipeline.
type Stage struct {
	Name string
	// Spec is the stage as it was written, with the pipeline's code, environment
	// and variables where it names none, and defaults filled in.
	Spec v1alpha1.Stage
	// Dataset and Branch are where it commits.
	Dataset, Branch string
	// Sources are what it reads, in the order in which they are written.
	Sources []*Source
	// After are the stages that it reads, each once.
	After []string

	input *node
}

// Source is one input of a stage.
type Source struct {
	// Index is which one it is of its stage's sources.
	Index int
	// Name is under which the stage finds it.
	Name string
	// Dataset and Branch are what is read: also where a stage is, by then its
	// output. Both are empty for a source of times.
	Dataset, Branch string
	// Stage is the stage whose output is read, if it is of this pipeline.
	Stage string
	// Cron is when a file is made, for a source of times.
	Cron *v1alpha1.CronInput
	// Silent says that commits do not start runs.
	Silent bool
	Glob   *glob.Pattern

	joinOn, groupBy *glob.Template
	outer           bool
}

// Stage is the stage of a name, nil where there is none.
func (g *Graph) Stage(name string) *Stage {
	for _, s := range g.Stages {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// Whole says that the stage computes all of its input at once, by a job of its
// own kind.
func (s *Stage) Whole() bool { return s.Spec.Training != nil || s.Spec.Spark != nil }

// pachydermMount is where programs for Pachyderm find their files.
const pachydermMount = "/pfs"

// Pachyderm reports whether the stage's programs get Pachyderm's variables: those whose files are
// at Pachyderm's mount do.
func (s *Stage) Pachyderm() bool { return !s.Whole() && path.Clean(s.Spec.MountPath) == pachydermMount }

// Single says that the stage has one datum at most, whatever there is.
func (s *Stage) Single() bool { return s.input.one() }

// one says that there is one datum at most.
func (n *node) one() bool {
	if n.how == single {
		return n.source.Everything()
	}
	for _, part := range n.parts {
		if n.how != cross || !part.one() {
			return false
		}
	}
	return true
}

// Everything says that all of the source is one datum.
func (s *Source) Everything() bool { return s.Glob.Whole() && s.joinOn == nil && s.groupBy == nil }

// Parse checks a pipeline and puts its stages in order. The error says everything
// that is wrong with it, each on a line.
func Parse(name string, spec *v1alpha1.PipelineSpec) (*Graph, error) {
	p := &parser{name: name, stages: map[string]*Stage{}}
	var written []*Stage
	for i := range spec.Stages {
		s := p.stage(spec, &spec.Stages[i])
		if s.Name == "" {
			p.errs = append(p.errs, fmt.Errorf("stage %d has no name: give it one", i+1))
		}
		if p.stages[s.Name] != nil {
			p.say(s, "there are two stages of this name: rename one")
			continue
		}
		p.stages[s.Name] = s
		written = append(written, s)
	}
	for _, s := range written {
		p.sources(s)
	}
	p.outputs(written)
	g := &Graph{Name: name, Stages: p.order(written)}
	if len(p.errs) > 0 {
		return nil, errors.Join(p.errs...)
	}
	return g, nil
}

// ParseRun checks the stages that a run was started with.
func ParseRun(spec *v1alpha1.PipelineRunSpec) (*Graph, error) {
	return Parse(spec.Pipeline, &v1alpha1.PipelineSpec{Stages: spec.Stages, Queue: spec.Queue})
}

type parser struct {
	name   string
	stages map[string]*Stage
	errs   []error
}

func (p *parser) say(s *Stage, format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf("stage %s: %w", s.Name, fmt.Errorf(format, args...)))
}

// stage is a stage with everything that the pipeline says for it.
func (p *parser) stage(spec *v1alpha1.PipelineSpec, written *v1alpha1.Stage) *Stage {
	s := &Stage{Name: written.Name, Spec: *written.DeepCopy()}
	if s.Spec.Code == nil {
		s.Spec.Code = spec.Code.DeepCopy()
	}
	if s.Spec.Environment == nil {
		s.Spec.Environment = spec.Environment.DeepCopy()
	}
	env := slices.Clone(spec.Env)
	for _, v := range s.Spec.Env {
		at := slices.IndexFunc(env, func(e envVar) bool { return e.Name == v.Name })
		if at >= 0 {
			env[at] = v
			continue
		}
		env = append(env, v)
	}
	s.Spec.Env = env
	if s.Spec.Tries == nil {
		tries := int32(3)
		s.Spec.Tries = &tries
	}
	s.Spec.OnFailure = cmp.Or(s.Spec.OnFailure, v1alpha1.FailRun)
	s.Dataset, s.Branch = p.name+"-"+s.Name, defaultBranch
	if out := s.Spec.Output; out != nil {
		s.Dataset, s.Branch = cmp.Or(out.Dataset, s.Dataset), cmp.Or(string(out.Branch), s.Branch)
	}
	return s
}

const defaultBranch = "main"

// sources reads a stage's input.
func (p *parser) sources(s *Stage) {
	b := &inputs{parser: p, stage: s}
	s.input = b.input(&s.Spec.Input)
	for _, source := range s.Sources {
		own := source.Stage == "" && source.Cron == nil && source.Dataset == s.Dataset && source.Branch == s.Branch
		if own || source.Stage == s.Name {
			p.say(s, "it reads %s@%s, which it writes: write to another branch, or read another", source.Dataset, source.Branch)
			continue
		}
		if source.Stage != "" && !slices.Contains(s.After, source.Stage) {
			s.After = append(s.After, source.Stage)
		}
	}
	if s.Whole() {
		p.whole(s)
	}
}

// whole checks a stage that computes everything at once.
func (p *parser) whole(s *Stage) {
	for _, source := range s.Sources {
		if !source.Glob.Whole() {
			p.say(s, "input %s has the glob %s, but training and spark read all of their input at once: leave the glob out", source.Name, source.Glob)
		}
	}
	if in := &s.Spec.Input; len(in.Join)+len(in.Group)+len(in.Union) > 0 {
		p.say(s, "training and spark read all of their input at once: combine inputs with cross")
	}
}

// outputs refuses two stages that write one branch, and stages that read a branch
// by name that a stage of this pipeline writes.
func (p *parser) outputs(written []*Stage) {
	by := map[[2]string]*Stage{}
	for _, s := range written {
		at := [2]string{s.Dataset, s.Branch}
		if other := by[at]; other != nil {
			p.say(s, "it writes to %s@%s, as stage %s does: give one of them another output", s.Dataset, s.Branch, other.Name)
			continue
		}
		by[at] = s
	}
	for _, s := range written {
		for _, source := range s.Sources {
			writer := by[[2]string{source.Dataset, source.Branch}]
			if writer == nil || source.Stage != "" || source.Cron != nil || writer == s {
				continue
			}
			p.say(s, "input %s is %s@%s, which stage %s writes: say stage: %s instead", source.Name, source.Dataset, source.Branch, writer.Name, writer.Name)
		}
	}
}

// order sorts stages so that each comes after those that it reads.
func (p *parser) order(written []*Stage) []*Stage {
	done := map[string]bool{}
	var sorted []*Stage
	for len(sorted) < len(written) {
		next := slices.IndexFunc(written, func(s *Stage) bool {
			return !done[s.Name] && !slices.ContainsFunc(s.After, func(name string) bool { return !done[name] && p.stages[name] != nil })
		})
		if next < 0 {
			p.errs = append(p.errs, fmt.Errorf("stages %s read one another in a circle: take out one of these inputs", strings.Join(p.circle(written, done), " -> ")))
			return nil
		}
		done[written[next].Name] = true
		sorted = append(sorted, written[next])
	}
	return sorted
}

// circle names stages that wait for one another, the first again at the end.
func (p *parser) circle(written []*Stage, done map[string]bool) []string {
	at := written[slices.IndexFunc(written, func(s *Stage) bool { return !done[s.Name] })]
	var line []string
	for !slices.Contains(line, at.Name) {
		line = append(line, at.Name)
		i := slices.IndexFunc(at.After, func(name string) bool { return !done[name] && p.stages[name] != nil })
		at = p.stages[at.After[i]]
	}
	line = line[slices.Index(line, at.Name):]
	slices.Reverse(line) // in the direction in which data would flow
	return append(line, line[0])
}

// Schedule reads when a source of times makes a file, in UTC.
func Schedule(text string) (cron.Schedule, error) {
	if strings.Contains(text, "TZ=") {
		return nil, fmt.Errorf("schedule %q names a time zone: times are in UTC: leave it out", text)
	}
	s, err := cron.ParseStandard(text)
	if err != nil {
		return nil, fmt.Errorf("schedule %q: %w: give five fields (minute, hour, day of the month, month, day of the week), @hourly, @daily, @weekly, @monthly or @every 90m", text, err)
	}
	return s, nil
}
