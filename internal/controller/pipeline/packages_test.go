package pipeline

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/environment"
)

// shop builds environments for images, as far as it is told: by image and requirements.
type shop struct {
	states map[string]environment.State
	// asked are the runs, and the roles, for which it was.
	asked []string
}

func (s *shop) EnsureFor(run *v1alpha1.PipelineRun, roles []v1alpha1.Role, r environment.Request) environment.State {
	s.asked = append(s.asked, fmt.Sprint(run.Name != "", len(roles)))
	state, known := s.states[r.Image+" "+r.Requirements]
	if !known {
		return environment.State{Phase: environment.Building, Message: "pod build-1 waits for a node"}
	}
	return state
}

// readied is an environment that is ready, with these packages.
func readied(packages ...string) environment.State {
	return environment.State{Phase: environment.Ready, Lock: &environment.Lock{Python: "3.13.1", Platform: "linux-x86_64", Packages: packages, Hash: "h"}}
}

func packed(environment string) string {
	return fmt.Sprintf(`
metadata: {name: packed}
spec:
  environment: %s
  stages:
  - {name: upper, input: {dataset: things, glob: "/*"}, command: [sh, -c, 'cp $MUSTER_INPUT_THINGS/* $MUSTER_OUTPUT']}
  - {name: train, input: {stage: upper}, training: {roles: [{name: worker, replicas: 1, command: [sh, -c, 'cat $MUSTER_INPUT_UPPER/* > $MUSTER_OUTPUT/all']}]}}
`, environment)
}

// On a cluster what the packages of a stage were resolved to counts, with the image below
// them, and not how they were asked for.
func TestPackagesElsewhere(t *testing.T) {
	r := elsewhere(t, nil)
	s := &shop{states: map[string]environment.State{
		"box:1 sums": readied("sums-1", "words-1"), "box:1 sums==1": readied("sums-1", "words-1"), "same:2 sums": readied("sums-1", "words-1"),
		"box:1 sums>1": readied("sums-2", "words-1"), "box:3 sums": readied("sums-1", "words-1"),
		"box:1 of before": {Phase: environment.Ready, Lock: &environment.Lock{Python: "3.13.1", Hash: "h"}},
		"box:1 none":      {Phase: environment.Failed, Message: "ERROR: No matching distribution found for none"},
	}}
	r.machine.Environments = s
	r.put("things", map[string]string{"a": "one", "b": "two"})
	for _, c := range []struct {
		environment string
		computed    int64
		why         string
	}{
		{"{requirements: sums}", 2, ""},
		{"{requirements: sums==1}", 0, ""},
		{`{requirements: sums, image: "same:2"}`, 0, ""},
		{"{requirements: sums>1}", 2, "environment: sums: 1 -> 2"},
		{`{requirements: sums, image: "box:3"}`, 2, "environment: image: sha256:a -> sha256:b; environment: sums: 2 -> 1"},
		{"{requirements: sums}", 0, ""},
		{"{requirements: of before}", 2, "environment: files is new: h"},
		{`{image: "box:1"}`, 2, "environment: files is gone"},
	} {
		r.apply(packed(c.environment))
		run := r.finish("packed")
		got := computed(run)
		if run.Status.Phase != v1alpha1.RunSucceeded || got["upper"] != c.computed || (got["train"] > 0) != (c.computed > 0) {
			t.Errorf("%s: %s: %s; computed %v, want %d", c.environment, run.Status.Phase, run.Status.Message, got, c.computed)
		}
		for _, stage := range run.Status.Stages {
			if !strings.Contains(stage.Why, c.why) {
				t.Errorf("%s: %s: %q, want %q", c.environment, stage.Name, stage.Why, c.why)
			}
		}
	}
	if diff := cmp.Diff([]string{"true 0", "true 1"}, s.asked[:2]); diff != "" {
		t.Errorf("it was asked: %s", diff)
	}
	// What cannot be built fails the stage, in the words of whoever tried.
	r.apply(packed("{requirements: none}"))
	if run := r.finish("packed"); run.Status.Phase != v1alpha1.RunFailed || run.Status.Message != "stage upper: environment: ERROR: No matching distribution found for none" {
		t.Errorf("%s: %s", run.Status.Phase, run.Status.Message)
	}
}

// On one machine the packages of a stage that names an image are put on top of that, and
// count as on a cluster; those of one that names none are for the machine's own Python.
func TestPackagesOnTop(t *testing.T) {
	r := newRig(t, nil)
	r.machine.Environments = &shop{states: map[string]environment.State{
		"box:1 sums": readied("sums-1"), "box:1 sums==1": readied("sums-1"), "same:2 sums": readied("sums-1"),
		"box:1 sums>1": readied("sums-2"), "box:3 sums>1": readied("sums-2"),
		"box:1 none": {Phase: environment.Failed, Message: "ERROR: No matching distribution found for none"},
		" sums":      {Phase: environment.Failed, Message: "this machine's own Python was asked"},
	}}
	r.put("things", map[string]string{"a": "one", "b": "two"})
	for _, c := range []struct {
		environment string
		computed    int64
		why         string
	}{
		{`{image: "box:1", requirements: sums}`, 2, ""},
		{`{image: "box:1", requirements: sums==1}`, 0, ""},
		{`{image: "same:2", requirements: sums}`, 0, ""},
		{`{image: "box:1", requirements: sums>1}`, 2, "environment: sums: 1 -> 2"},
		{`{image: "box:3", requirements: sums>1}`, 2, "environment: image: sha256:a -> sha256:b"},
		{`{image: "box:3"}`, 2, "environment: sums is gone"},
	} {
		r.apply(packed(c.environment))
		run := r.finish("packed")
		got := computed(run)
		if run.Status.Phase != v1alpha1.RunSucceeded || got["upper"] != c.computed || (got["train"] > 0) != (c.computed > 0) {
			t.Errorf("%s: %s: %s; computed %v, want %d", c.environment, run.Status.Phase, run.Status.Message, got, c.computed)
		}
		if why := run.Status.Stages[0].Why; !strings.Contains(why, c.why) {
			t.Errorf("%s: %q, want %q", c.environment, why, c.why)
		}
	}
	for environment, says := range map[string]string{
		`{image: "box:1", requirements: none}`:  "stage upper: environment: ERROR: No matching distribution found for none",
		`{image: "host", requirements: sums}`:   "stage upper: environment.image: host stands for this machine's own programs, on top of which no packages are put",
		`{image: "none:1", requirements: sums}`: "stage upper: environment.image: no registry has none:1",
		`{requirements: sums}`:                  "stage upper: environment: this machine's own Python was asked",
	} {
		r.apply(packed(environment))
		if run := r.finish("packed"); run.Status.Phase != v1alpha1.RunFailed || !strings.HasPrefix(run.Status.Message, says) {
			t.Errorf("%s: %s: %s", environment, run.Status.Phase, run.Status.Message)
		}
	}
}

// Nothing is planned, and nobody is employed, before the environment is there; the run
// says so, and so does one that only asks what it would compute.
func TestPackagesAreWaitedFor(t *testing.T) {
	r := elsewhere(t, nil)
	s := &shop{states: map[string]environment.State{}}
	r.machine.Environments = s
	r.put("things", map[string]string{"a": "one"})
	const says = "stage upper: building its environment: pod build-1 waits for a node"
	if would := r.dry(packed("{requirements: sums}")); would.Status.Phase != v1alpha1.RunPlanning || would.Status.Message != says {
		t.Errorf("it would: %s: %s", would.Status.Phase, would.Status.Message)
	}
	r.apply(packed("{requirements: sums}"))
	run := r.step(r.look("packed").Status.LastRun)
	if run.Status.Phase != v1alpha1.RunPlanning || run.Status.Message != says || run.Status.Stages[0].Recipe != "" || r.started > 0 {
		t.Errorf("%s: %s; %d jobs", run.Status.Phase, run.Status.Message, r.started)
	}
	s.states["box:1 sums"] = readied("sums-1")
	if run = r.finish("packed"); run.Status.Phase != v1alpha1.RunSucceeded {
		t.Errorf("%s: %s", run.Status.Phase, run.Status.Message)
	}
}

// The image whose Python the packages of a training stage are for is that of its members.
func TestPackagesOfMembers(t *testing.T) {
	m := &Machine{Elsewhere: true, Images: library{}, DefaultImage: "box:1", Environments: &shop{}}
	for roles, c := range map[string]struct{ image, problem string }{
		"[{name: a, command: [x]}]": {"box:1", ""},
		"[{name: a, command: [x], template: {spec: {containers: [{name: m, image: box:2}]}}}]":                          {"box:2", ""},
		"[{name: a, command: [x]}, {name: b, command: [x], template: {spec: {containers: [{name: m, image: box:2}]}}}]": {"", "roles a and b run in different images (box:1 and box:2)"},
	} {
		p := &v1alpha1.Pipeline{}
		text := "metadata: {name: p}\nspec: {stages: [{name: s, input: {dataset: things}, environment: {requirements: sums}, training: {roles: " + roles + "}}]}"
		if err := yaml.UnmarshalStrict([]byte(text), p); err != nil {
			t.Fatal(err)
		}
		graph, problem := parse(p.Name, &p.Spec, m)
		if (problem != "") != (c.problem != "") || !strings.Contains(problem, c.problem) {
			t.Errorf("%s: %q, want %q", roles, problem, c.problem)
		}
		if problem != "" {
			continue
		}
		if image, _ := m.pythonOf(graph.Stages[0]); image != c.image {
			t.Errorf("%s: %s, want %s", roles, image, c.image)
		}
	}
}

// TestProgramsOfTheMachineCount: where a stage sees the machine's files, by itself or in an image
// that stands for them, the file that its command runs counts. After a change of it the next run
// computes again, and the explanation has its path.
func TestProgramsOfTheMachineCount(t *testing.T) {
	for name, env := range map[string]string{"no image": "", "an image that stands for the machine": "    environment: {image: host}\n"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			program := filepath.Join(t.TempDir(), "upper.sh")
			write := func(line string) {
				r.must(os.WriteFile(program, []byte(line+" < $MUSTER_INPUT_THINGS/a > $MUSTER_OUTPUT/made\n"), 0o600))
			}
			write("tr a-z A-Z")
			r.put("things", map[string]string{"a": "one"})
			r.apply(`
metadata: {name: own}
spec:
  stages:
  - name: upper
    input: {dataset: things, glob: "/a"}
` + env + `    command: [sh, ` + program + `]
`)
			if run := r.finish("own"); computed(run)["upper"] != 1 || r.files("own-upper")["made"] != "ONE" {
				t.Fatalf("%s; %q", run.Status.Message, r.files("own-upper"))
			}
			r.put("things", map[string]string{"b": "not read"})
			if run := r.finish("own"); computed(run)["upper"] != 0 {
				t.Errorf("the same program computed %v", computed(run))
			}
			write("tr a-z b-za")
			r.put("things", map[string]string{"c": "not read"})
			run := r.finish("own")
			if why := run.Status.Stages[0].Why; computed(run)["upper"] != 1 || r.files("own-upper")["made"] != "pof" || !strings.Contains(why, "program "+program) {
				t.Errorf("another program computed %v, since %q: %q", computed(run), why, r.files("own-upper"))
			}
		})
	}
}
