package pipeline

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/muster-dev/muster/api/v1alpha1"
)

const fork = `
metadata: {name: fork, namespace: team, uid: u1}
spec:
  stages:
  - {name: a, input: {cross: [{dataset: left}, {dataset: right, silent: true}]}, command: ["true"]}
  - {name: b, input: {stage: a}, command: ["true"]}
`

// known is what is known of the pipeline fork whose branches are at commits.
func known(t *testing.T, left, right string) *seen {
	t.Helper()
	p := &v1alpha1.Pipeline{}
	if err := yaml.UnmarshalStrict([]byte(fork), p); err != nil {
		t.Fatal(err)
	}
	s := &seen{pipeline: p, datasets: map[string]bool{"left": true, "right": true}, heads: map[head]string{}, identity: map[string]string{}}
	for name, at := range map[string]string{"left": left, "right": right} {
		if at != "" {
			s.heads[head{name, "main"}] = at
		}
	}
	if s.graph, s.problem = parse(p.Name, &p.Spec, &Machine{}); s.problem != "" {
		t.Fatal(s.problem)
	}
	return s
}

// begun has the pipeline have had its run with commits l1 and r1.
func (s *seen) begun(t *testing.T) *seen {
	t.Helper()
	d := decide(known(t, "l1", "r1"))
	if d.start == nil {
		t.Fatal(d.status.Message)
	}
	s.pipeline.Status = d.status
	return s
}

func TestDecide(t *testing.T) {
	for name, c := range map[string]struct {
		seen   func(*testing.T) *seen
		phase  v1alpha1.PipelinePhase
		says   string
		starts bool
	}{
		"no dataset": {func(t *testing.T) *seen {
			s := known(t, "", "r1")
			delete(s.datasets, "left")
			return s
		}, v1alpha1.PipelineReady, "muster data create left", false},
		"no commit":       {func(t *testing.T) *seen { return known(t, "", "r1") }, v1alpha1.PipelineReady, "waits for the first commit on left@main", false},
		"the first":       {func(t *testing.T) *seen { return known(t, "l1", "r1") }, v1alpha1.PipelineRunning, "is on its way", true},
		"nothing new":     {func(t *testing.T) *seen { return known(t, "l1", "r1").begun(t) }, v1alpha1.PipelineReady, "waits for commits", false},
		"a commit":        {func(t *testing.T) *seen { return known(t, "l2", "r1").begun(t) }, v1alpha1.PipelineRunning, "is on its way", true},
		"a silent commit": {func(t *testing.T) *seen { return known(t, "l1", "r2").begun(t) }, v1alpha1.PipelineReady, "waits for commits", false},
		"other stages": {func(t *testing.T) *seen {
			s := known(t, "l1", "r1").begun(t)
			s.graph.Stages[0].Spec.Command = []string{"false"}
			return s
		}, v1alpha1.PipelineRunning, "is on its way", true},
		"a commit while one runs": {func(t *testing.T) *seen {
			s := known(t, "l2", "r1").begun(t)
			s.running = "fork-1"
			return s
		}, v1alpha1.PipelineRunning, "one with what has changed since follows", false},
		"a commit while paused": {func(t *testing.T) *seen {
			s := known(t, "l2", "r1").begun(t)
			s.pipeline.Spec.Paused = true
			return s
		}, v1alpha1.PipelinePaused, "once it is resumed", false},
		"on a cluster": {func(t *testing.T) *seen {
			s := known(t, "l1", "r1")
			s.graph, s.problem = nil, noMachine
			return s
		}, v1alpha1.PipelineInvalid, "pipelines take a store of data", false},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide(c.seen(t))
			if d.status.Phase != c.phase || !strings.Contains(d.status.Message, c.says) || (d.start != nil) != c.starts {
				t.Errorf("%s: %s; starts %v", d.status.Phase, d.status.Message, d.start != nil)
			}
		})
	}
}

// A crash between making a run and noting it makes no second one; the same commits
// again, later, do.
func TestNamesOfRuns(t *testing.T) {
	first, again := decide(known(t, "l1", "r1")).start, decide(known(t, "l1", "r1")).start
	if first.Name != again.Name || !metav1.IsControlledBy(first, known(t, "", "").pipeline) {
		t.Errorf("%s and %s", first.Name, again.Name)
	}
	later := known(t, "l2", "r1").begun(t)
	later.pipeline.Status = decide(later).status
	later.heads[head{"left", "main"}] = "l1" // a revert
	if back := decide(later).start; back == nil || back.Name == first.Name {
		t.Errorf("a revert starts %v", back)
	}
}

func TestIdentityOfACommit(t *testing.T) {
	s := known(t, "l2", "r1").begun(t)
	s.identity["l2"] = "upstream-1"
	if run := decide(s).start; run.Spec.Identity != "upstream-1" || run.Spec.Cause != "commit l2 on left@main" {
		t.Errorf("%+v", run.Spec)
	}
}

func TestSupported(t *testing.T) {
	for field, says := range map[string]string{
		"command: [x], environment: {image: windows/i}":                      "environment.image: images for Windows do not run here",
		"command: [x], environment: {image: windows/i, requirements: numpy}": "environment.image: images for Windows do not run here",
		"command: [x], environment: {image: i, path: /opt/env}":              "environment.path: /opt/env is for this machine's own programs, and not for those of an image",
		"command: [x], environment: {image: i, python: '3.11'}":              "environment.python: the image i has the Python that it has",
		"training: {roles: []}, mountPath: /muster/in":                       "mountPath: /muster/in has other files than the datum's",
		"command: [x], mountPath: /":                                         "mountPath: / has other files",
		"command: [x], mountPath: /pfs/":                                     "mountPath: nothing can be mounted at /pfs: of the tier. Have the program read the folders in $MUSTER_INPUT_<NAME>",
		"spark: {script: s.py}, mountPath: /pfs":                             "mountPath: nothing can be mounted at /pfs",
		"command: [x], output: {egress: /backup}":                            "output.egress",
		"spark: {script: s.py}, environment: {image: windows/i}":             "environment.image: images for Windows do not run here",
		"spark: {script: s.py}, environment: {image: i, path: /opt/env}":     "environment.path: /opt/env is for this machine's own programs, and not for those of an image",
	} {
		p := &v1alpha1.Pipeline{}
		if err := yaml.UnmarshalStrict([]byte("metadata: {name: p}\nspec: {stages: [{name: s, input: {dataset: things}, "+field+"}]}"), p); err != nil {
			t.Fatal(err)
		}
		if _, problem := parse(p.Name, &p.Spec, &Machine{Images: library{}, Environments: noEnvironment{}, Unmountable: "of the tier"}); !strings.Contains(problem, "stage s: Unsupported: "+says) {
			t.Errorf("%s: %q", field, problem)
		}
	}
}
